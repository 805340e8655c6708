
# Sets gridstead_unmade to the path of a program that removes itself. srun runs it as a prolog,
# after Slurm has created a step and before srun starts tasks. While the file exists, no task has
# started.
new_step() {
  gridstead_unmade=$storage/.unmade-$BASHPID
  install -m 700 /dev/stdin "$gridstead_unmade" 2>/dev/null \
    <<<$'#!/bin/sh\nexec /bin/rm -f -- "$0"' ||
    gridstead_unmade='' # for example if the storage is full
}

# Returns whether slurmctld does not answer, or started after a time or up to 30 seconds before it.
has_slurmctld_restarted() { # the time, in seconds since 1970
  local gridstead_config
  gridstead_config=$(
    SLURM_TIME_FORMAT=%s timeout 10 scontrol show config </dev/null 2>/dev/null
  ) || return 0
  [[ $gridstead_config =~ BOOT_TIME\ *=\ *([0-9]+) ]] && ((BASH_REMATCH[1] > $1 - 30))
}

# Starts the tasks of a step. When slurmctld stops or starts, srun fails or waits without an answer.
# So a step that Slurm did not create is retried, and so is a step that waits for its resources.
start() { # options of srun, words
  local gridstead_code=143 gridstead_ended='' gridstead_reported=''
  local gridstead_tried_at gridstead_started_at=$EPOCHSECONDS
  # srun passes all words to its prolog, which can receive only about 1,000.
  if [[ ! -x $gridstead_unmade ]] || (($# > 1000)); then
    gridstead_unmade=''
    set -- srun --immediate=%%{start_timeout} "$@"
  else # no array: if the customer's IFS is \001, bash splits even the quoted words of an array
    set -- srun "--prolog=$gridstead_unmade" --immediate=%%{call_timeout} "$@"
  fi
  [[ ! $gridstead_marks ]] || set -- /bin/bash -p -c "$unless_marked" "$gridstead_marks" "$@"
  trap 'gridstead_ended=yes' {1..8} {10..16} {24..27} {29..31} # senders signal srun too
  while [[ ! $gridstead_ended ]]; do
    gridstead_code=0 gridstead_tried_at=$EPOCHSECONDS
    "$@" || gridstead_code=$?
    if ((gridstead_code != 1)) || [[ $gridstead_ended || ! -x $gridstead_unmade ]] ||
      ((EPOCHSECONDS >= gridstead_started_at + %%{restart_timeout})); then
      break
    fi
    if ((EPOCHSECONDS < gridstead_tried_at + %%{call_timeout} ||
      EPOCHSECONDS >= gridstead_started_at + %%{start_timeout})); then
      has_slurmctld_restarted "$gridstead_started_at" || break
    fi
    [[ $gridstead_reported ]] || echo "gridstead: Slurm did not create this step; retrying" >&2
%%{retry}    gridstead_reported=yes
    [[ $gridstead_ended ]] || sleep 2 || break
  done
  return "$gridstead_code"
}
