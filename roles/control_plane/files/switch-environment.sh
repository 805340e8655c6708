#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes another release of the control plane into use, which is ROOT/venv: the new one, after which ROOT/former is the one
# before; or the former one again, with the settings that it had. Prints "changed" if it is another than was in use.
# Usage: switch-environment.sh ROOT next|former
set -euo pipefail
shopt -s nullglob

readonly root=$1 way=$2

# Prints which release a link is, and nothing where there is none yet.
environment::of() {
    if [[ -L $root/$1 ]]; then
        readlink "$root/$1"
    fi
}

environment::use() {
    # Of a time when it was an environment itself.
    if [[ -d $root/venv && ! -L $root/venv ]]; then
        rm -r "$root/venv"
    fi
    ln -sfn "$1" "$root/venv.new"
    mv --no-target-directory "$root/venv.new" "$root/venv"
}

environment::forget_others() {
    local -r kept=$(readlink --canonicalize "$root"/{next,venv,former} "$root"/{next,venv,former}/locked)
    local place
    for place in "$root"/{release,lock}-*; do
        if ! grep --quiet --line-regexp --fixed-strings "$place" <<<"$kept"; then
            rm -r "$place"
        fi
    done
}

before=$(environment::of venv)
readonly before
target=$(environment::of "$way")
readonly target
if [[ -z $target || $target == "$before" ]]; then
    exit
fi
if [[ $way == next ]]; then
    if [[ -n $before ]]; then
        ln -sfn "$before" "$root/former"
    fi
    environment::use "$target"
    environment::forget_others
else
    settings=("$target"/settings/*.toml)
    if ((${#settings[@]})); then
        cp --preserve "${settings[@]}" /etc/gridstead
    fi
    environment::use "$target"
fi
echo changed
