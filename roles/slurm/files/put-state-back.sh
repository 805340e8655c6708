#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Replace the state of slurmctld by a copy, and create the marker "restored" for its next start.
# Usage: put-state-back.sh COPY STATE_DIRECTORY
set -euo pipefail

readonly copy=$1 state=$2

mkdir --parents "$state"
find "$state" -mindepth 1 -delete
cp --archive --no-target-directory "$copy" "$state"
touch "$state/restored"
chown --reference="$copy" "$state/restored"
