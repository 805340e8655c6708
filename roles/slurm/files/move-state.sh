#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stops slurmctld and moves its state to another folder. The file that says whose state it is comes
# last and goes first, so that nobody takes half of it, or an old one, for all of it.
# Usage: move-state.sh STATE_DIRECTORY NEW_STATE_DIRECTORY
set -euo pipefail

readonly old=$1 new=$2 owner=clustername

systemctl stop slurmctld
install --directory --owner=slurm --group=slurm --mode=0700 "$new"
tar --create --directory="$old" --exclude="./$owner" . | tar --extract --preserve-permissions --directory="$new"
cp --archive "$old/$owner" "$new/"
mv "$old/$owner" "$old/$owner.moved"
