
# Runs steps that come last, even when the job is to end. A signal that comes meanwhile ends them and the job.
own_branch='' # where the files of this shell begin, if it is a branch
error=() # the code of the last step with handlers, as a variable for steps
at_last() { # command
  local outer=$ended code=0
  if ((ended)); then
    # shellcheck disable=SC2317 # steps call it
    start() { # in a job that is to end Slurm starts no tasks, so the words run here, once
      while [[ $1 == --* ]]; do shift; done
      exec /bin/bash -p -c "$unless_marked" "$gridstead_marks" "$@"
    }
    # shellcheck disable=SC2317 # so do they
    is_ending() { return 1; } # beyond what is known: handlers of what comes last are not told again
    gridstead_marks='' # what comes last is not what they end
  fi
  ended=0
  "$@" || code=$?
  ended=$((outer ? outer : ended))
  return "$code"
}

# Whether Slurm is ending the job.
is_ending() {
  local state
  state=$(timeout 10 squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T </dev/null 2>/dev/null) || return
  [[ $state == COMPLETING ]]
}

# Learns, after a step, of an end that has been told to others so far, and waits for the end of the telling: what comes
# last is not told. Slurm tells the tasks of steps and this script, each when it likes, and leaves branches to us.
heard() {
  local patience # tenths of a second, for one that tells may be gone
  while ((ended == 0)) && is_marked; do
    # Told, and nothing heard: bash loses an INT now and then while it starts a process.
    if [[ -s $own_branch ]]; then ended=$((ended ? ended : 130)); else sleep 0.1 || :; fi
  done
  if ((ended == 0)) && is_ending; then
    if [[ $own_branch ]]; then hear 15; fi
    for ((patience = 50; patience && !ended; patience--)); do sleep 0.1 || :; done
    ended=$((ended ? ended : 143))
  fi
  for ((patience = 50; patience; patience--)); do
    if [[ ! $own_branch || ! -e $own_branch.end || -s $own_branch ]]; then break; fi
    sleep 0.1 || :
  done
}
