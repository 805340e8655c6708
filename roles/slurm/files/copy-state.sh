#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copies slurmctld's state while it works, without what jobs brought with them. Takes the place of
# an earlier copy.
# Usage: copy-state.sh STATE_DIRECTORY COPY
set -euo pipefail

readonly state=$1 copy=$2
# Jobs come and go meanwhile. slurmctld replaces its files whole, so one that is being read is
# whole.
readonly changed_meanwhile=1

rm -rf "$copy"
mkdir "$copy"
{
    tar --directory="$state" --create --exclude='./hash.*/job.*/environment' --exclude=./stopped_cleanly . ||
        (($? == changed_meanwhile))
} | tar --directory="$copy" --extract --preserve-permissions
