# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Functions for programs that run several checks. Each check runs even if an earlier check failed,
# and prints its result and its duration. The program fails if one check fails.

program=${0##*/}
started=$SECONDS
failed=()

# Usage: part NAME COMMAND...
part() {
    local -r name=$1
    shift
    local -r began=$SECONDS
    echo "$program: $name"
    if "$@"; then
        echo "$program: $name: good, $((SECONDS - began)) s"
    else
        failed+=("$name")
        echo "$program: $name: FAILED, $((SECONDS - began)) s" >&2
        return 1
    fi
}

# Prints the result of all checks. Must be the last command of the program.
finish() {
    if ((${#failed[@]})); then
        printf '%s: failed after %d s: %s\n' "$program" $((SECONDS - started)) "${failed[*]}" >&2
        return 1
    fi
    echo "$program: everything passed in $((SECONDS - started)) s"
}
