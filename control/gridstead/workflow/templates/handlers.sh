
# Runs finally steps, even in a job that is ending. A signal that arrives meanwhile ends them and
# the job.
own_branch='' # the path of this shell's branch files, if it is a branch
error=() # the code of the last step with handlers, as a variable for steps
run_last() { # command
  local outer=$ended code=0
  if ((ended)); then
    # shellcheck disable=SC2317 # steps call it
    start() { # Slurm starts no tasks in a job that is ending, so the words run here, once
      while [[ $1 == --* ]]; do shift; done
      exec /bin/bash -p -c "$unless_marked" "$gridstead_marks" "$@"
    }
    # shellcheck disable=SC2317 # steps call it
    is_ending() { return 1; } # inner handlers must not detect the same end again
    gridstead_marks='' # the marks of the end do not apply to finally steps
  fi
  ended=0
  "$@" || code=$?
  ended=$((outer ? outer : ended))
  return "$code"
}

# Returns whether Slurm is ending the job.
is_ending() {
  local state
  state=$(
    timeout 10 squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T </dev/null 2>/dev/null
  ) || return
  [[ $state == COMPLETING ]]
}

# Detects, after a step, that the job or the branch is ending. Then waits until every sender has
# sent its signals, because finally steps must not receive them. Slurm signals the tasks of steps
# and this script in any order, and does not signal branches.
check_for_end() {
  local remaining # tenths of a second; limited, because a sender may have been killed
  while ((ended == 0)) && is_marked; do
    # The signal was sent and did not arrive: bash may lose an INT while it starts a process.
    if [[ -s $own_branch ]]; then ended=$((ended ? ended : 130)); else sleep 0.1 || :; fi
  done
  if ((ended == 0)) && is_ending; then
    if [[ $own_branch ]]; then handle_signal 15; fi
    for ((remaining = 50; remaining && !ended; remaining--)); do sleep 0.1 || :; done
    ended=$((ended ? ended : 143))
  fi
  for ((remaining = 50; remaining; remaining--)); do
    if [[ ! $own_branch || ! -e $own_branch.end || -s $own_branch ]]; then break; fi
    sleep 0.1 || :
  done
}
