#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds packages with a higher revision from the installed packages of Slurm. Package slurmd cannot
# be configured while the file /var/tmp/broken exists. FOLDER is then a source for apt. SUFFIX is
# appended to the version.
# Usage: repack.sh FOLDER SUFFIX
set -euo pipefail
shopt -s nullglob

readonly folder=$1 suffix=$2 info=/var/lib/dpkg/info

newer::files() {
    local -r package=$1 tree=$2
    local file
    dpkg-query --listfiles "$package" | while read -r file; do
        if [[ -L $file || -f $file ]]; then
            cp --archive --parents "$file" "$tree"
        elif [[ -d $file ]]; then
            mkdir --parents "$tree$file"
        fi
    done
}

newer::control() {
    local -r package=$1 tree=$2 version=$3
    local file
    mkdir "$tree/DEBIAN"
    for file in "$info/$package".* "$info/$package":*; do
        if [[ ${file##*.} != @(list|md5sums) ]]; then
            cp --archive "$file" "$tree/DEBIAN/${file##*.}"
        fi
    done
    # Status and Conffiles describe the installed package and are not part of a control file.
    dpkg-query --status "$package" | sed -e '/^Status:/d' \
        -e '/^Conffiles:/,/^[^ ]/{/^Conffiles:/d;/^ /d}' \
        -e "s/${version//+/[+]}/&$suffix/g" >"$tree/DEBIAN/control"
    if [[ $package == slurmd ]]; then
        sed --in-place '1a test ! -e /var/tmp/broken' "$tree/DEBIAN/postinst"
        sed --in-place '1a set -e' "$tree/DEBIAN/postinst"
    fi
}

mkdir --parents "$folder"
cd "$folder"
dpkg-query --show --showformat='${source:Package} ${Package} ${Version}\n' | grep '^slurm-wlm ' |
    while read -r _ package version; do
        tree=$(mktemp --directory)
        chmod 0755 "$tree"
        newer::files "$package" "$tree"
        newer::control "$package" "$tree" "$version"
        dpkg-deb --root-owner-group -Znone --build "$tree" "$package.deb" >/dev/null
        rm -r "$tree"
    done
for file in *.deb; do
    dpkg-deb --field "$file"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat --format=%s "$file")" \
        "$(sha256sum "$file" | cut -d ' ' -f 1)"
done >Packages
