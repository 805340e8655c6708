#!/bin/bash -l
# A job of the grid, made from its customer's workflow. The steps stand at the end.
# shellcheck disable=SC1003,SC2016,SC2030,SC2031,SC2034,SC2054,SC2088,SC2141 # quoted text, and variables, of the customer
set -euo pipefail

# --- Secrets ---
# They come in the environment. The script starts again without them, reads them from a pipe, and writes them to files
# that nobody else can read, once it is sure to remove them. Nothing of the customer's runs until then: the profile has
# been read, BASH_ENV waits.
if [ $# -eq 0 ]; then
  exec env -u GRIDSTEAD_LOGGER_URL -u GRIDSTEAD_LOGGER_CA -u GRIDSTEAD_LOG_OWNER -u GRIDSTEAD_LOG_NAME -u GRIDSTEAD_LOG_TOKEN -u BASH_ENV \
    /bin/bash "$0" "${BASH_ENV-}" 3< <(
      printf 'logger\0%s\n%s\n%s\n%s\n%s\n\0' "${GRIDSTEAD_LOGGER_URL:-}" "${GRIDSTEAD_LOGGER_CA:-}" "${GRIDSTEAD_LOG_OWNER:-}" "${GRIDSTEAD_LOG_NAME:-}" "${GRIDSTEAD_LOG_TOKEN:-}"
    )
fi
private='' writer=''
trap 'rm -rf -- "$private"' EXIT # until there is more to clean up
private=$(mktemp -d "${TMPDIR:-/tmp}/gridstead.XXXXXX")
(
  umask 077
  while IFS= read -r -d '' file; do
    IFS= read -r -d '' text
    printf '%s' "$text" >"$private/$file"
  done
) <&3
exec 3<&-
if [ -n "$1" ]; then export BASH_ENV="$1"; fi

# --- The end, however it comes ---
storage="/opt/cache/shared/$UID/$SLURM_JOB_NAME.$SLURM_JOB_ID"
finish() {
  local status=$?
  set +e # nothing here changes how the job ends
  cd /
  if ! rm -rf -- "$storage" 2>/dev/null; then # folders that the customer may not write to
    chmod -R u+rwX -- "$storage"
    rm -rf -- "$storage"
  fi
  exec >/dev/null 2>&1 # the writer sees the end, sends what it has and goes
  wait "$writer"
  rm -rf -- "$private"
  exit "$status"
}
trap finish EXIT
ended=0 # the code of the job once a signal came: the step that runs is the last
trap 'ended=130' INT
trap 'ended=143' TERM

# --- Output: to Slurm's file and to the grid's logger, stdout and stderr by a pipe each ---
# A writer that is killed goes on; without one the file is enough.
mkfifo -- "$private/stderr"
exec 3<>"$private/stderr" # both ends, so that neither waits for the other
exec > >(
  trap '' INT TERM # it ends when the output does
  exec 3<"$private/stderr"
  for _ in {1..50}; do
    /opt/gridstead/venv/bin/gridstead-log-writer "$private/logger" 3 && exit
    [ $? -gt 128 ] || break
  done
  cat <&3 &
  cat
  wait
)
writer=$!
exec 2>"$private/stderr" 3>&-

# --- Resources ---
export NTASKS=3 CPUS_PER_TASK=1 MEM_PER_CPU=64 GPUS=0
export CPUS=3 MEM=192

# --- Storage ---
export STORAGE_PATH="$storage"
export DEEPSQUARE_INPUT="$storage/input" DEEPSQUARE_OUTPUT="$storage/output" DEEPSQUARE_ENV="$storage/env"
export DEEPSQUARE_TMP="/opt/cache/persistent/user-$UID"
export DEEPSQUARE_SHARED_TMP="$DEEPSQUARE_TMP"
export DEEPSQUARE_SHARED_WORLD_TMP="/opt/cache/world-tmp"
export DEEPSQUARE_DISK_TMP="/opt/cache/disk/tmp/user-$UID"
export DEEPSQUARE_DISK_WORLD_TMP="/opt/cache/disk/world-tmp"
(umask 077 && mkdir -p -- "$storage/input" "$storage/output")
: >"$storage/env"
cd -- "$storage"

# --- Environment: of the job, then what earlier steps wrote to DEEPSQUARE_ENV, then of the steps around ---
job_environment() { # NAME=value of the steps around
  local gridstead_line gridstead_lines=()
  if [ -f "$storage/env" ]; then mapfile -t gridstead_lines <"$storage/env"; fi
  set +e # what cannot be set is named and ends nothing
  for gridstead_line in "${gridstead_lines[@]}"; do
    if [[ ! $gridstead_line =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || ! export "${gridstead_line?}"; then
      echo "ignored in DEEPSQUARE_ENV: $gridstead_line" >&2
    fi
  done
  if (($#)); then declare -gx -- "$@"; fi
  set -e
}

# --- How steps run ---
# Runs steps one after the other until one fails or the job is to end.
in_order() { # functions
  local each
  for each in "$@"; do
    ((ended == 0)) || return "$ended"
    "$each" || return
  done
  return "$ended"
}

# Whether somebody ends what runs here. Who does makes its mark before he looks for processes: what begins after that
# look, and would never hear of the signal, finds the mark.
gridstead_marks='' # paths, a line before each: of the branches that this shell is in
is_marked() {
  local gridstead_left=$gridstead_marks
  while [[ $gridstead_left ]]; do
    if [[ -e ${gridstead_left##*$'\n'} ]]; then return 0; fi
    gridstead_left=${gridstead_left%$'\n'*}
  done
  return 1
}

# Goes before words that are not to begin then. A shell of its own: one that has handled signals may hold one and lose it
# when it becomes another program.
unless_marked="$(declare -f is_marked); gridstead_marks=\$0; ! is_marked || exit 143; exec \"\$@\""

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
    set -- srun --immediate=60 "$@"
  else # no array: with a customer's IFS of \001 bash takes its words apart, quoted or not
    set -- srun "--prolog=$gridstead_unmade" --immediate=5 "$@"
  fi
  [[ ! $gridstead_marks ]] || set -- /bin/bash -p -c "$unless_marked" "$gridstead_marks" "$@"
  trap 'gridstead_ended=yes' {1..8} {10..16} {24..27} {29..31} # whoever signals this shell signals srun
  while [[ ! $gridstead_ended ]]; do
    gridstead_code=0 gridstead_asked=$EPOCHSECONDS
    "$@" || gridstead_code=$?
    if ((gridstead_code != 1)) || [[ $gridstead_ended || ! -x $gridstead_unmade ]] ||
      ((EPOCHSECONDS >= gridstead_first + 180)); then
      break
    fi
    if ((EPOCHSECONDS < gridstead_asked + 5 || EPOCHSECONDS >= gridstead_first + 60)); then
      is_slurmctld_new "$gridstead_first" || break
    fi
    [[ $gridstead_said ]] || echo "gridstead: Slurm did not make this step; asking again" >&2
    gridstead_said=yes
    [[ $gridstead_ended ]] || sleep 2 || break
  done
  return "$gridstead_code"
}

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

# Starts a step beside those that follow.
declare -A processes=() codes=() # of launched steps, by their numbers
launch() { # number, function
  beside "$2"
  processes[$1]=$!
}

# Waits for a launched step and returns its code, as often as it is asked. One that was skipped has not failed.
await() { # number
  local code=0
  if [[ -v processes[$1] ]]; then
    end_of "${processes[$1]}" || code=$?
    unset "processes[$1]"
    codes[$1]=$code
  fi
  return "${codes[$1]:-0}"
}

# Runs steps in order, then ends those launched among them; what fails by itself fails all. A signal that ended the steps
# is passed on instead of theirs.
settled() { # numbers with the signals that end them, functions
  local each number code signal signalled=" " result=0
  in_order "${@:2}" || result=$?
  {
    for each in $1; do
      number=${each%:*} signal=${each#*:}
      if ((!ended && signal)) && [[ -v processes[$number] ]] && kill -0 "${processes[$number]}"; then
        signal_branch "$signal" "${processes[$number]}"
        signalled+="$number "
      fi
    done
    for each in $1; do
      number=${each%:*} code=0
      await "$number" || code=$?
      if [[ $signalled != *" $number "* ]]; then result=$((result ? result : code)); fi
      unset "codes[$number]"
    done
  } 2>/dev/null # bash tells here of those that it ends, with their source
  return "$result"
}

# --- Steps ---
# Step 1: prepare

# Step 1.1
step_1_1() (
  set -- /bin/sh -c "$say_step" "$storage/.step-$BASHPID" "$@"
  new_step
  job_environment
  start --job-name=step-1.1 --export=ALL --nodes=1-1 --ntasks=1 --cpus-per-task=1 --mem-per-cpu=64M \
    "$@" /bin/sh -c 'sleep 1; echo 42 >answer'
)

step_1_launched() {
  in_order step_1_1
}
step_1() {
  launch 1 step_1_launched
}

# Step 2: serve

# Step 2.1
step_2_1() (
  set -- /bin/sh -c "$say_step" "$storage/.step-$BASHPID" "$@"
  new_step
  job_environment
  start --job-name=step-2.1 --export=ALL --nodes=1-1 --ntasks=1 --cpus-per-task=1 --mem-per-cpu=64M \
    "$@" /bin/sh -c 'while [ ! -e question ]; do sleep 0.1; done; cat answer; sleep 1000'
)

step_2_launched() {
  in_order step_2_1
}
step_2() {
  launch 2 step_2_launched
}

# Step 3: ask
step_3_unguarded() (
  new_step
  job_environment
  start --job-name=ask --export=ALL --nodes=1-1 --ntasks=1 --cpus-per-task=1 --mem-per-cpu=64M \
    /bin/sh -c 'touch question; sleep 1'
)
step_3() {
  await 1 || return
  step_3_unguarded
}

# --- The job ---
settled '1:15 2:15' step_1 step_2 step_3 || exit
