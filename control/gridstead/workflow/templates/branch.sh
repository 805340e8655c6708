
# Runs a command beside what follows; a signal ends it in order. Its mark has the time in its name, as the numbers of
# processes come again.
declare -A marks=() # of what this shell runs beside, by process
beside() { # command
  local mark=$storage/.end-$BASHPID-$EPOCHREALTIME
  (
    processes=() # those of the shell around are not ours
    trap 'ended=129' HUP
    trap 'ended=130' INT
    trap 'ended=131' QUIT
    trap 'ended=143' TERM
    gridstead_marks+=$'\n'$mark
    ! is_marked || exit 143 # a signal may have come before the traps
    "$@"
  ) &
  marks[$!]=$mark
}

# Goes before the command of a launched step: tells the name that Slurm knows it by.
say_step='echo "$SLURM_JOB_ID.$SLURM_STEP_ID" >"$0" && exec "$@"'

# Sends a signal to a process and to all that it has started. Slurm takes it to the tasks of a step that has said its
# name: srun passes few on and kills its tasks at the others.
signal_tree() { # signal, process
  local child children='' step=''
  { read -r step <"$storage/.step-$2"; } 2>/dev/null
  if [[ $step ]] && scancel --signal="$1" "$step" 2>/dev/null; then return; fi
  { read -r children <"/proc/$2/task/$2/children"; } 2>/dev/null
  kill -s "$1" -- "$2" 2>/dev/null
  for child in $children; do signal_tree "$1" "$child"; done
}

# Sends a signal to what runs beside, with its mark if it is one that ends: then no step begins in it any more.
signal_branch() { # signal, process
  case $1 in
  17 | 18 | 19 | 2[0-3] | 28) ;;
  *) { : >"${marks[$2]}"; } 2>/dev/null ;; # not in a full storage, say
  esac
  signal_tree "$@"
}

# Once a signal has come, sends it to processes and to all that was launched, each once.
told=" "
tell() { # processes
  local each
  ((ended)) || return 0
  for each in "$@" "${processes[@]}"; do
    if [[ $told != *" $each "* ]]; then
      told+="$each "
      signal_branch TERM "$each"
    fi
  done
}

# Waits for the end of a process of this shell and returns its code; a signal that comes meanwhile goes to it too.
end_of() { # process
  local code
  while true; do
    tell "$1"
    code=0
    wait "$1" 2>/dev/null || code=$? # bash tells there of signals
    if ((code <= 128)) || ! kill -0 "$1" 2>/dev/null; then return "$code"; fi
  done
}
