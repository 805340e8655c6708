#!/usr/bin/env bash
# Fails and says why if a mariadbd ($1) would refuse a file of settings ($2). Starts and writes
# nothing. What InnoDB or a plugin refuses, mariadbd only tells: the server would start without it,
# and without the databases.
set -euo pipefail

told=$("$1" --defaults-file="$2" --user=mysql --help --verbose 2>&1 >/dev/null) || { echo "$told" >&2; exit 1; }
! grep --fixed-strings '[ERROR]' <<<"$told" >&2
