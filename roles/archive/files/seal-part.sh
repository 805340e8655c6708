#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Seals what is in a folder into one file that only the recipient's key opens. Nothing of it is
# readable on the way.
# Usage: seal-part.sh FOLDER RECIPIENT SEALED [OPTION OF TAR...]
set -euo pipefail

readonly folder=$1 recipient=$2 sealed=$3
shift 3

umask 077
tar --create --gzip --directory="$folder" "$@" . | age --recipient="$recipient" --output="$sealed"
