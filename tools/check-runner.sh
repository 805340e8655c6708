# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For programs of several checks, which source it: each check runs even if an earlier one failed,
# and says how it went and how long it took; one failure fails the whole.

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

# Says how the whole went; the last command of a program.
finish() {
    if ((${#failed[@]})); then
        printf '%s: failed after %d s: %s\n' "$program" $((SECONDS - started)) "${failed[*]}" >&2
        return 1
    fi
    echo "$program: everything passed in $((SECONDS - started)) s"
}
