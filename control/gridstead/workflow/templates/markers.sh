# --- Markers: lines in the job's log that say what the job does ---
# They have their own pipe, because the last line of a step may have no end.
gridstead_round='' gridstead_hidden='' # of the loops around a step: the rounds; is one not shown?
gridstead_total=1 # the number of the round of the nearest loop, counted in the whole job
gridstead_node=''
if [[ ${SLURM_JOB_NUM_NODES-} == 1 ]]; then gridstead_node=${SLURMD_NODENAME-}; fi
job_began=${EPOCHREALTIME//[!0-9]/} # microseconds
failed_step='' # <code>:<position> of the first failed step, unless its failure was caught

# Writes a marker. It is shorter than what bash writes at once, so markers of branches do not mix.
marker() { # words, name
  local gridstead_now=${EPOCHREALTIME//[!0-9]/} gridstead_time
  TZ=UTC0 printf -v gridstead_time '%(%FT%T)T.%sZ' "${gridstead_now:0:-6}" "${gridstead_now: -6:3}"
  {
    printf '[gridstead] %s time=%s%s\n' "$1" "$gridstead_time" "${2:+ name=$2}" >&8
  } 2>/dev/null || :
}

# Sets gridstead_seconds to the time that has passed since a time in microseconds.
seconds_since() { # time
  local elapsed=$(((${EPOCHREALTIME//[!0-9]/} - $1) / 1000))
  elapsed=$((elapsed > 0 ? elapsed : 0)) # the clock may have been set back
  printf -v gridstead_seconds '%d.%03d' "$((elapsed / 1000))" "$((elapsed % 1000))"
}

# Runs a step between two markers and returns its code. A failure is shown in every round.
in_step() { # position, name, further words, function
  local gridstead_step="step=$1${gridstead_round:+ round=$gridstead_round}" gridstead_seconds
  local gridstead_began=${EPOCHREALTIME//[!0-9]/} gridstead_code=0
  if [[ ! $gridstead_hidden ]]; then
    marker "begin $gridstead_step${gridstead_node:+ node=$gridstead_node}$3" "$2"
  fi
  "$4" || gridstead_code=$?
  if ((gridstead_code)); then
    failed_step=${failed_step:-$gridstead_code:$1} # an inner step may have failed before
  elif [[ $gridstead_hidden ]]; then
    return 0
  fi
  seconds_since "$gridstead_began"
  marker "end $gridstead_step exit=$gridstead_code seconds=$gridstead_seconds" "$2"
  return "$gridstead_code"
}

skip_marker() { # position, name
  [[ $gridstead_hidden ]] || marker "skip step=$1${gridstead_round:+ round=$gridstead_round}" "$2"
}

end_marker() { # exit code of the job
  local gridstead_seconds step=''
  seconds_since "$job_began"
  if [[ $failed_step == "$1":* ]]; then step=" step=${failed_step#*:}"; fi
  marker "job-end exit=$1 seconds=$gridstead_seconds$step"
}

marker "job-begin${SLURM_JOB_NODELIST:+ nodes=${SLURM_JOB_NODELIST:0:200}}"

