#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts folders out of a stage in the place of whatever is there; those that the stage has not are
# gone. What is above them is not ours to change.
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
