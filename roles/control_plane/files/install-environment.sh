#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install a release of the control plane next to the release in use, and link it as ROOT/next. A
# release is a virtual environment with the wheels. It uses a second environment with the
# dependencies of the lock file, which releases share. Without wheels, create only the second
# environment. Print "changed" if ROOT/next is not in use or is not recorded as working.
# Usage: install-environment.sh ROOT LOCK WHEELHOUSE [--name] [WHEEL...]
# If WHEELHOUSE is empty, the package index is used. With --name, only print the path of the
# release.
set -euo pipefail
shopt -s nullglob

readonly root=$1 lock=$2 wheelhouse=$3
wheels=("${@:4}")

# The name of an environment contains a hash of its input files. A complete environment contains the
# file .whole. An incomplete environment is created again.
environment_path() {
    local -r kind=$1
    shift
    echo "$root/$kind-$(cat "$@" | sha256sum | cut -c -12)"
}

mark_complete() {
    # uv leaves a lock file that is writable for all users.
    rm -f "$1/.lock"
    touch "$1/.whole"
}

if [[ ${wheels[0]:-} == --name ]]; then
    environment_path release "$lock" "${wheels[@]:1}"
    exit
fi
locked=$(environment_path lock "$lock")
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
    # Install the uv of the lock file with pip, and everything else with uv, which is much faster.
    # The entry of uv ends with the first line that has no backslash at its end.
    "$locked/bin/pip" install --quiet --disable-pip-version-check "${pip_options[@]}" \
        --require-hashes --requirement <(sed --quiet '/^uv==/,/[^\]$/p' "$lock")
    "${install[@]}" --python "$locked/bin/python" "${source_options[@]}" --require-hashes \
        --requirement "$lock"
    mark_complete "$locked"
fi
if ((${#wheels[@]} == 0)); then
    exit
fi
release=$(environment_path release "$lock" "${wheels[@]}")
readonly release
if [[ ! -e $release/.whole ]]; then
    python3 -m venv --clear --without-pip "$release"
    # A .pth file adds the packages of the second environment to the import path of the release.
    ln -s "$locked" "$release/locked"
    for packages in "$release"/lib/python3*/site-packages; do
        echo "$release/locked${packages#"$release"}" >"$packages/locked.pth"
    done
    "${install[@]}" --python "$release/bin/python" --offline --no-index --no-deps \
        "${wheels[@]}"
    mark_complete "$release"
fi
ln -sfn "$release" "$root/next"
if [[ $(readlink "$root/venv") != "$release" || ! -e $release/works.tar ]]; then
    echo changed
fi
