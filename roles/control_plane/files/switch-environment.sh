#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes another release of the control plane into use, which is ROOT/venv, or notes that it works.
# Prints "changed" if there is something new.
#   next     ROOT/next is in use. If the one before worked, ROOT/former is that one.
#   works    The release in use works, and has a copy of the settings and units with which its services do.
#   former   ROOT/former is in use again, with these settings and units; prints its services, others are gone.
# Each may be cut off anywhere: the next run starts a release again that is not noted to work.
# Usage: switch-environment.sh ROOT next|works|former [SERVICE...]
set -euo pipefail
shopt -s nullglob

readonly root=$1 way=$2 services=("${@:3}") note=works.tar

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

environment::files_of() {
    echo "/etc/gridstead/$1.toml"
    echo "/etc/systemd/system/gridstead-$1.service"
}

# The same settings and units make the same note.
environment::note() {
    local service
    umask 077
    for service in "${services[@]}"; do
        environment::files_of "$service"
    done | tar --create --file="$1" --absolute-names --sort=name --mtime=@0 --files-from=-
}

environment::put_back() {
    local service files names
    names=$(tar --list --absolute-names --file="$1")
    for service in "${services[@]}"; do
        mapfile -t files < <(environment::files_of "$service")
        if grep --quiet --line-regexp --fixed-strings "${files[1]}" <<<"$names"; then
            echo "$service"
            continue
        fi
        if [[ -e ${files[1]} ]]; then
            systemctl --quiet disable --now "gridstead-$service.service"
        fi
        rm -f "${files[@]}"
    done
    tar --extract --file="$1" --absolute-names --preserve-permissions --touch
}

if [[ $way == works ]]; then
    readonly noted=$root/venv/$note
    environment::note "$noted.new"
    if ! cmp --quiet "$noted.new" "$noted"; then
        echo changed
    fi
    mv "$noted.new" "$noted"
    exit
fi
before=$(environment::of venv)
target=$(environment::of "$way")
readonly before target
if [[ -z $target || $target == "$before" ]]; then
    exit
elif [[ $way == next ]]; then
    if [[ -n $before && -e $before/$note ]]; then
        ln -sfn "$before" "$root/former"
    fi
    # Also one that worked once has to show it again.
    rm -f "$target/$note"
    environment::use "$target"
    environment::forget_others
elif [[ -e $target/$note ]]; then
    environment::put_back "$target/$note"
    environment::use "$target"
else
    exit
fi
echo changed
