#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Write the contents of a directory to one file, encrypted for an age recipient. No clear text is
# written to the disk.
# Usage: seal-part.sh FOLDER RECIPIENT ENCRYPTED_FILE [TAR OPTION...]
set -euo pipefail

readonly folder=$1 recipient=$2 encrypted_file=$3
shift 3

umask 077
tar --create --gzip --directory="$folder" "$@" . \
    | age --recipient="$recipient" --output="$encrypted_file"
