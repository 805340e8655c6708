#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Print the places that exist and are not empty.
# Usage: find-data.sh [PLACE...]
set -euo pipefail

for place in "$@"; do
    if [[ -e $place ]]; then
        find "$place" -maxdepth 0 ! -empty
    fi
done
