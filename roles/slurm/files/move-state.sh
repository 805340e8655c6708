#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stop slurmctld and move its state to another directory. The file clustername, which marks a valid
# state, is written to the new directory last and is then renamed in the old directory. Therefore
# slurmctld never starts from an incomplete state or from the old state.
# Usage: move-state.sh STATE_DIRECTORY NEW_STATE_DIRECTORY
set -euo pipefail

readonly old=$1 new=$2 owner=clustername

systemctl stop slurmctld
install --directory --owner=slurm --group=slurm --mode=0700 "$new"
tar --create --directory="$old" --exclude="./$owner" . \
    | tar --extract --preserve-permissions --directory="$new"
cp --archive "$old/$owner" "$new/"
mv "$old/$owner" "$old/$owner.moved"
