
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
    gridstead_marks='' # what comes last is not what they end
  fi
  ended=0
  "$@" || code=$?
  ended=$((outer ? outer : ended))
  return "$code"
}

# Waits for a signal whose mark is there already, and for the end of the telling: what comes last is not told.
heard() {
  local patience=50 # tenths of a second, for one that tells may be gone
  while ((ended == 0)) && is_marked; do sleep 0.1 || :; done
  while [[ $own_branch && -e $own_branch.end && ! -s $own_branch ]] && ((patience--)); do sleep 0.1 || :; done
}
