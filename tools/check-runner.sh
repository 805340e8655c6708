# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Functions for programs that run several checks. Each check runs even if an earlier check failed,
# and prints its result and its duration. The program fails if one check fails.

program=${0##*/}
started=$SECONDS
failed=()

# Without this trap, the next check would start after an interrupt if the running check handles the
# signal and exits.
trap 'exit 130' INT TERM

# Runs a command as a check. Usage: run_check NAME COMMAND...
run_check() {
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

# Runs a command and keeps its output for list_failures.
keep_output() {
    kept_output=${kept_output:-$(mktemp)}
    "$@" 2>&1 | tee --ignore-interrupts --append "$kept_output"
    return "${PIPESTATUS[0]}"
}

# Prints the failed tests in the kept output and in that of the background command again, with the
# last messages. A CI may show only the end of the whole output.
list_failures() {
    local -r files=(${kept_output:+"$kept_output"} ${background_log:+"$background_log"})
    ((${#files[@]})) || return 0
    grep --no-filename '^E   ' "${files[@]}" | tail -n 8
    grep --no-filename -E '^(FAILED|ERROR) |: FAILED|^lint: failed' "${files[@]}" | tail -n 16
}

# Starts a command in a new process group, so that stop_background also ends its children. A shell
# makes its background commands ignore SIGINT; env restores the default.
# Usage: start_background COMMAND...
start_background() {
    background_log=$(mktemp)
    setsid env --default-signal=INT,QUIT "$@" >"$background_log" 2>&1 &
    background_pid=$!
}

# Waits for the background command, prints its output and returns its exit code.
wait_for_background() {
    wait "$background_pid"
    local -r status=$?
    background_pid=
    cat "$background_log"
    return "$status"
}

# Interrupts the background command if it still runs, and removes the kept output.
stop_background() {
    if [[ -n ${background_pid-} ]]; then
        kill -INT -- "-$background_pid" && wait "$background_pid"
    fi
    rm -f "${background_log-}" "${kept_output-}"
}

# Prints the result of all checks. Must be the last command of the program.
finish() {
    if ((${#failed[@]})); then
        printf '%s: failed after %d s: %s\n' "$program" $((SECONDS - started)) "${failed[*]}" >&2
        return 1
    fi
    echo "$program: everything passed in $((SECONDS - started)) s"
}
