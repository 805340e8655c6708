#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Print the files and directories that exist and are not empty.
# Usage: find-data.sh [PATH...]
set -euo pipefail

for path in "$@"; do
    if [[ -e $path ]]; then
        find "$path" -maxdepth 0 ! -empty
    fi
done
