#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Replace directories by their copies in a staging directory. A directory without a copy is deleted.
# Parent directories are not changed.
# Usage: put-back.sh STAGE FOLDER...
set -euo pipefail

readonly stage=$1
shift

for folder in "$@"; do
    rm -rf "$folder"
    if [[ -e $stage$folder ]]; then
        mkdir -p "${folder%/*}"
        cp --archive "$stage$folder" "$folder"
    fi
done
