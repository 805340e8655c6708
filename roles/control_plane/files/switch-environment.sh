#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Change the release of the control plane in use, ROOT/venv, or record that it works.
# Print "changed" if something has changed.
#   next     Use ROOT/next. If the previous release worked, set ROOT/former to this release.
#   works    Record that the release in use works: save the settings and units of its services.
#   former   Use ROOT/former again and restore its saved settings and units. Print its services and
#            remove the other services.
# Each command may be interrupted at any point. The next run starts a release again if the release
# is not recorded as working.
# Usage: switch-environment.sh ROOT next|works|former [SERVICE...]
set -euo pipefail
shopt -s nullglob

readonly root=$1 action=$2 services=("${@:3}") saved_files=works.tar

# Print the target of a link, or nothing if the link does not exist.
environment::link_target() {
    if [[ -L $root/$1 ]]; then
        readlink "$root/$1"
    fi
}

# Make ROOT/venv a link to an environment.
environment::use() {
    # In old releases of Gridstead venv was a directory.
    if [[ -d $root/venv && ! -L $root/venv ]]; then
        rm -r "$root/venv"
    fi
    ln -sfn "$1" "$root/venv.new"
    mv --no-target-directory "$root/venv.new" "$root/venv"
}

# Remove the environments that are not in use.
environment::remove_unused() {
    local -r links=("$root"/{next,venv,former} "$root"/{next,venv,former}/locked)
    local -r kept=$(readlink --canonicalize "${links[@]}")
    local environment
    for environment in "$root"/{release,lock}-*; do
        if ! grep --quiet --line-regexp --fixed-strings "$environment" <<<"$kept"; then
            rm -r "$environment"
        fi
    done
}

# Print the paths of the settings and the unit of a service.
environment::files_of() {
    echo "/etc/gridstead/$1.toml"
    echo "/etc/systemd/system/gridstead-$1.service"
}

# Write the settings and units to an archive. The same files make the same archive.
environment::save_files() {
    local service
    umask 077
    for service in "${services[@]}"; do
        environment::files_of "$service"
    done | tar --create --file="$1" --absolute-names --sort=name --mtime=@0 --files-from=-
}

# Extract the files of an archive. Print the services in the archive and remove the other services.
environment::restore_files() {
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

if [[ $action == works ]]; then
    readonly saved_archive=$root/venv/$saved_files
    environment::save_files "$saved_archive.new"
    if ! cmp --quiet "$saved_archive.new" "$saved_archive"; then
        echo changed
    fi
    mv "$saved_archive.new" "$saved_archive"
    exit
fi
before=$(environment::link_target venv)
target=$(environment::link_target "$action")
readonly before target
if [[ -z $target || $target == "$before" ]]; then
    exit
elif [[ $action == next ]]; then
    if [[ -n $before && -e $before/$saved_files ]]; then
        ln -sfn "$before" "$root/former"
    fi
    # A release that worked earlier must prove again that it works.
    rm -f "$target/$saved_files"
    environment::use "$target"
    environment::remove_unused
elif [[ -e $target/$saved_files ]]; then
    environment::restore_files "$target/$saved_files"
    environment::use "$target"
else
    exit
fi
echo changed
