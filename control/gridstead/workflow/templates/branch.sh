
# A branch is a background shell that runs steps. Its files have its process id and its start time
# in their names, because process ids are reused:
# <branch>           is empty until the signal was sent to everything in the branch
# <branch>.end       marks that the branch is to end
# <branch>.<signal>  exists from the moment before this signal is sent

# Sets branch to the path of the branch's files, if the process is a branch.
branch_of() { # process
  local IFS=' ' line fields
  branch=''
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0 # the process has ended
  # shellcheck disable=SC2206 # numbers
  fields=(${line##*) })
  branch=$storage/.branch-$1-${fields[19]}
}

# Marks that a branch is to end, and returns whether nobody has sent this signal before. If no file
# can be created, for example because the storage is full, every caller is the first.
mark_signal() { # branch, signal
  { : >|"$1.end"; } 2>/dev/null || :
  (set -o noclobber && : >"$1.$2") 2>/dev/null || [[ ! -e $1.$2 ]]
}

# Handles a signal in a branch.
handle_signal() { # signal
  ended=$((128 + $1))
  if mark_signal "$own_branch" "$1"; then { echo sent >|"$own_branch"; } 2>/dev/null || :; fi
}

# Runs a command in the background, as a branch. A signal ends it in an orderly way.
run_branch() { # command
  (
    processes=() # the processes of the parent shell do not belong to this one
    branch_of "$BASHPID"
    own_branch=$branch
    gridstead_marks+=$'\n'$own_branch.end
    { : >"$own_branch"; } 2>/dev/null || :
    for each in {1..8} {10..16} {24..27} {29..31}; do
      # shellcheck disable=SC2064 # the number is expanded now
      trap "handle_signal $each" "$each"
    done
    ! is_marked || exit 143 # a signal may have arrived before the traps were set
    "$@"
  ) &
}

# Goes before the command of a launched step: writes the Slurm step id to a file.
record_step='echo "$SLURM_JOB_ID.$SLURM_STEP_ID" >"$0" && exec "$@"'

# Sends a signal to a process and to all its descendants. For a step with a recorded step id, Slurm
# sends the signal to the tasks: srun forwards only few signals, and kills its tasks at the others.
signal_tree() { # signal, process
  local child children='' step='' branch
  { read -r step <"$storage/.step-$2"; } 2>/dev/null
  if [[ $step ]] && scancel --signal="$1" "$step" 2>/dev/null; then return; fi
  { read -r children <"/proc/$2/task/$2/children"; } 2>/dev/null
  kill -s "$1" -- "$2" 2>/dev/null
  for child in $children; do
    branch_of "$child"
    if [[ -e $branch ]]; then signal_branch "$1" "$child"; else signal_tree "$1" "$child"; fi
  done
}

# Sends a signal to a branch. A terminating signal is sent only once, by the first sender: a second
# one would end the finally steps too. The mark comes first, so that no further step starts in the
# branch.
signal_branch() { # signal, process
  local branch
  case $1 in
  17 | 18 | 19 | 2[0-3] | 28) signal_tree "$@" ;;
  *)
    branch_of "$2"
    if [[ ! $branch ]] || ! mark_signal "$branch" "$1"; then return; fi
    signal_tree "$@"
    { echo sent >|"$branch"; } 2>/dev/null || :
    ;;
  esac
}

# After a signal has arrived, sends it to these processes and to all launched steps, each once.
already_signalled=" "
send_end_signal() { # processes
  local each
  ((ended)) || return 0
  for each in "$@" "${processes[@]}"; do
    if [[ $already_signalled != *" $each "* ]]; then
      already_signalled+="$each "
      signal_branch "$((ended - 128))" "$each"
    fi
  done
}

# Waits for the end of a child process and returns its code. A signal that arrives during the wait
# is sent to the process too. If a signal interrupts wait, bash may forget another process that has
# just ended, and a wait for that process would last until all processes have ended.
wait_for_process() { # process
  local code
  while true; do
    send_end_signal "$1"
    if ((ended)) && ! kill -0 "$1" 2>/dev/null; then return "$ended"; fi
    code=0
    wait "$1" 2>/dev/null || code=$? # bash prints messages about signals there
    if ((code <= 128)) || ! kill -0 "$1" 2>/dev/null; then return "$code"; fi
  done
}
