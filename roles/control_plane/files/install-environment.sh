#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a release of the control plane beside the one in use: ROOT/next. It is an environment with a
# wheel, and sees another with what the lock file names, which releases share. Without a wheel that
# other one is all it makes. Prints "changed" if ROOT/next is not in use, or not noted to work.
# Usage: install-environment.sh ROOT LOCK WHEELHOUSE [WHEEL [name]]; an empty WHEELHOUSE means the
# package index. With "name" it makes nothing, and prints where the release is or would be.
set -euo pipefail
shopt -s nullglob

readonly root=$1 lock=$2 wheelhouse=$3 wheel=${4:-} what=${5:-environment}

# An environment is named after what is in it, and whole when it says so: one that was cut off is
# made anew.
place() {
    local -r kind=$1
    shift
    echo "$root/$kind-$(cat "$@" | sha256sum | cut -c -12)"
}

note_whole() {
    # uv leaves a lock that everybody may write to.
    rm -f "$1/.lock"
    touch "$1/.whole"
}

if [[ $what == name ]]; then
    place release "$lock" "$wheel"
    exit
fi
locked=$(place lock "$lock")
readonly locked
install=("$locked/bin/uv" --quiet pip install --compile-bytecode)
if [[ ! -e $locked/.whole ]]; then
    source_options=(--offline --no-index --find-links "$wheelhouse")
    pip_options=(--no-index --find-links "$wheelhouse")
    if [[ -z $wheelhouse ]]; then
        source_options=()
        pip_options=()
    fi
    python3 -m venv --clear "$locked"
    # uv installs in seconds what takes pip a minute. It is the one that the lock file names.
    "$locked/bin/pip" install --quiet --disable-pip-version-check "${pip_options[@]}" --require-hashes \
        --requirement <(sed --quiet '/^uv==/,/[^\]$/p' "$lock")
    "${install[@]}" --python "$locked/bin/python" "${source_options[@]}" --require-hashes --requirement "$lock"
    note_whole "$locked"
fi
if [[ -z $wheel ]]; then
    exit
fi
release=$(place release "$lock" "$wheel")
readonly release
if [[ ! -e $release/.whole ]]; then
    python3 -m venv --clear --without-pip "$release"
    ln -s "$locked" "$release/locked"
    for packages in "$release"/lib/python3*/site-packages; do
        echo "$release/locked${packages#"$release"}" >"$packages/locked.pth"
    done
    "${install[@]}" --python "$release/bin/python" --offline --no-index --no-deps "$wheel"
    note_whole "$release"
fi
ln -sfn "$release" "$root/next"
if [[ $(readlink "$root/venv") != "$release" || ! -e $release/works.tar ]]; then
    echo changed
fi
