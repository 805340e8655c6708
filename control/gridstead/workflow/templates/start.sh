
# Sets gridstead_unmade to a program that removes itself. srun runs it when Slurm has made a step, before it starts tasks:
# as long as it is there, none has run.
new_step() {
  gridstead_unmade=$storage/.unmade-$BASHPID
  install -m 700 /dev/stdin "$gridstead_unmade" <<<$'#!/bin/sh\nexec /bin/rm -f -- "$0"' 2>/dev/null ||
    gridstead_unmade='' # a full storage, say
}

# Whether slurmctld is away, or began after some moment or a little before.
is_slurmctld_new() { # that moment, in seconds since 1970
  local gridstead_told
  gridstead_told=$(SLURM_TIME_FORMAT=%s timeout 10 scontrol show config </dev/null 2>/dev/null) || return 0
  [[ $gridstead_told =~ BOOT_TIME\ *=\ *([0-9]+) ]] && ((BASH_REMATCH[1] > $1 - 30))
}

# Starts the tasks of a step. Where slurmctld ends or begins, srun is cut off or waits in vain: then a step that was not
# made is asked for again, and so is one that waits for what it needs.
start() { # options of srun, words
  local gridstead_code=143 gridstead_asked gridstead_first=$EPOCHSECONDS gridstead_ended='' gridstead_said=''
  if [[ ! -x $gridstead_unmade ]] || (($# > 1000)); then # srun tells it of them all and has no room for more
    gridstead_unmade=''
    set -- srun --immediate=%%{patience} "$@"
  else # no array: with a customer's IFS of \001 bash takes its words apart, quoted or not
    set -- srun "--prolog=$gridstead_unmade" --immediate=%%{wait} "$@"
  fi
  [[ ! $gridstead_marks ]] || set -- /bin/bash -p -c "$unless_marked" "$gridstead_marks" "$@"
  trap 'gridstead_ended=yes' {1..8} {10..16} {24..27} {29..31} # whoever signals this shell signals srun
  while [[ ! $gridstead_ended ]]; do
    gridstead_code=0 gridstead_asked=$EPOCHSECONDS
    "$@" || gridstead_code=$?
    if ((gridstead_code != 1)) || [[ $gridstead_ended || ! -x $gridstead_unmade ]] ||
      ((EPOCHSECONDS >= gridstead_first + %%{most})); then
      break
    fi
    if ((EPOCHSECONDS < gridstead_asked + %%{wait} || EPOCHSECONDS >= gridstead_first + %%{patience})); then
      is_slurmctld_new "$gridstead_first" || break
    fi
    [[ $gridstead_said ]] || echo "gridstead: Slurm did not make this step; asking again" >&2
    gridstead_said=yes
    [[ $gridstead_ended ]] || sleep 2 || break
  done
  return "$gridstead_code"
}
