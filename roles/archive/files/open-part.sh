#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Decrypt a part and extract it to a directory. The age identity is read from standard input, so
# that the identity is in no file and in no process list.
# Usage: open-part.sh ENCRYPTED_FILE FOLDER [TAR OPTION...] <IDENTITY
set -euo pipefail

readonly encrypted_file=$1 folder=$2
shift 2

umask 077
age --decrypt --identity=- "$encrypted_file" \
    | tar --extract --gzip --preserve-permissions --directory="$folder" "$@"
