#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Opens what was sealed into a folder. The key, an identity of age, comes by standard input: no file
# and no process list has it.
# Usage: open-part.sh SEALED FOLDER [OPTION OF TAR...] <IDENTITY
set -euo pipefail

readonly sealed=$1 folder=$2
shift 2

umask 077
age --decrypt --identity=- "$sealed" | tar --extract --gzip --preserve-permissions --directory="$folder" "$@"
