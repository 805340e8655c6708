#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copy the state of a running slurmctld, without the environments of the jobs. Replace an older
# copy.
# Usage: copy-state.sh STATE_DIRECTORY COPY
set -euo pipefail

readonly state=$1 copy=$2
# Jobs start and end during the copy, and tar then exits with status 1. This is no error: slurmctld
# replaces its files by a rename, so each file that tar reads is complete.
readonly tar_files_changed=1

rm -rf "$copy"
mkdir "$copy"
{
    tar --directory="$state" --create --exclude='./hash.*/job.*/environment' \
        --exclude=./stopped_cleanly . || (($? == tar_files_changed))
} | tar --directory="$copy" --extract --preserve-permissions
