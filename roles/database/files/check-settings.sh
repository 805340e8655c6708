#!/usr/bin/env bash
# Fail and print the errors if mariadbd ($1) would refuse a settings file ($2). Start no server and
# write nothing. If InnoDB or a plugin refuses a setting, mariadbd logs an error and succeeds. The
# script then fails too, because the server would start without this engine or plugin, and without
# the databases.
set -euo pipefail

if ! log=$("$1" --defaults-file="$2" --user=mysql --help --verbose 2>&1 >/dev/null); then
    echo "$log" >&2
    exit 1
fi
! grep --fixed-strings '[ERROR]' <<<"$log" >&2
