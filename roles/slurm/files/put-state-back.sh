#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts a copy of slurmctld's state in the place of whatever is there, with a note for its next
# start.
# Usage: put-state-back.sh COPY STATE_DIRECTORY
set -euo pipefail

readonly copy=$1 state=$2

mkdir --parents "$state"
find "$state" -mindepth 1 -delete
cp --archive --no-target-directory "$copy" "$state"
touch "$state/restored"
chown --reference="$copy" "$state/restored"
