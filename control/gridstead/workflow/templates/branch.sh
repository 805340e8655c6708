
# Sets branch to where the files of a process begin, if it is a branch. Its beginning is in their names, as the numbers
# of processes come again: <branch> is empty until all in it is told of its end, <branch>.end is its mark, and
# <branch>.<signal> is there from when somebody is about to tell it of that signal.
branch_of() { # process
  local IFS=' ' line fields
  branch=''
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0 # it is gone
  # shellcheck disable=SC2206 # numbers
  fields=(${line##*) })
  branch=$storage/.branch-$1-${fields[19]}
}

# Whether nobody has told a branch of a signal that ends; marks it then. All are first in a full storage, say.
is_first() { # branch, signal
  { : >|"$1.end"; } 2>/dev/null || :
  (set -o noclobber && : >"$1.$2") 2>/dev/null || [[ ! -e $1.$2 ]]
}

# What a branch does at a signal that ends, whoever sends it.
hear() { # signal
  ended=$((128 + $1))
  if is_first "$own_branch" "$1"; then { echo told >|"$own_branch"; } 2>/dev/null || :; fi
}

# Runs a command beside what follows, as a branch; a signal ends it in order.
beside() { # command
  (
    processes=() # those of the shell around are not ours
    branch_of "$BASHPID"
    own_branch=$branch
    gridstead_marks+=$'\n'$own_branch.end
    { : >"$own_branch"; } 2>/dev/null || :
    for each in {1..8} {10..16} {24..27} {29..31}; do
      # shellcheck disable=SC2064 # this one's number
      trap "hear $each" "$each"
    done
    ! is_marked || exit 143 # a signal may have come before the traps
    "$@"
  ) &
}

# Goes before the command of a launched step: tells the name that Slurm knows it by.
say_step='echo "$SLURM_JOB_ID.$SLURM_STEP_ID" >"$0" && exec "$@"'

# Sends a signal to a process and to all that it has started. Slurm takes it to the tasks of a step that has said its
# name: srun passes few on and kills its tasks at the others.
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

# Sends a signal to a branch. One that ends is sent once, whoever tells of it, or it would end what comes last too; and
# the mark comes first: then no step begins in the branch any more.
signal_branch() { # signal, process
  local branch
  case $1 in
  17 | 18 | 19 | 2[0-3] | 28) signal_tree "$@" ;;
  *)
    branch_of "$2"
    if [[ ! $branch ]] || ! is_first "$branch" "$1"; then return; fi
    signal_tree "$@"
    { echo told >|"$branch"; } 2>/dev/null || :
    ;;
  esac
}

# Once a signal has come, sends it to processes and to all that was launched, each once.
told=" "
tell() { # processes
  local each
  ((ended)) || return 0
  for each in "$@" "${processes[@]}"; do
    if [[ $told != *" $each "* ]]; then
      told+="$each "
      signal_branch "$((ended - 128))" "$each"
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
