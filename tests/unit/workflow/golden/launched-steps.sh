#!/bin/bash -l
# A job of the grid, rendered from the customer's workflow. The steps are at the end.
# The disabled checks concern quoted text and variables of the customer.
# shellcheck disable=SC1003,SC2016,SC2030,SC2031,SC2034,SC2054,SC2088,SC2141
set -euo pipefail

# --- Secrets ---
# Secrets are passed in the environment. The script starts again without them, reads them from a
# pipe, and writes them to private files after it has set a trap that removes the files. No code of
# the customer runs before that: the profile was read by the first shell, and BASH_ENV is set again
# at the end.
if [ $# -eq 0 ]; then
  exec env \
    -u GRIDSTEAD_LOGGER_URL \
    -u GRIDSTEAD_LOGGER_CA \
    -u GRIDSTEAD_LOG_OWNER \
    -u GRIDSTEAD_LOG_NAME \
    -u GRIDSTEAD_LOG_TOKEN \
    -u BASH_ENV /bin/bash "$0" "${BASH_ENV-}" 3< <(
      printf 'logger\0%s\n%s\n%s\n%s\n%s\n\0' \
        "${GRIDSTEAD_LOGGER_URL:-}" \
        "${GRIDSTEAD_LOGGER_CA:-}" \
        "${GRIDSTEAD_LOG_OWNER:-}" \
        "${GRIDSTEAD_LOG_NAME:-}" \
        "${GRIDSTEAD_LOG_TOKEN:-}"
    )
fi
private='' writer=''
trap 'rm -rf -- "$private"' EXIT # a later trap replaces this one
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

# --- Cleanup ---
storage="/opt/cache/shared/$UID/$SLURM_JOB_NAME.$SLURM_JOB_ID"
finish() {
  local status=$?
  set +e # a failure of the cleanup must not change the exit code of the job
  cd /
  if ! rm -rf -- "$storage" 2>/dev/null; then # some folders may be read-only for the customer
    chmod -R u+rwX -- "$storage"
    rm -rf -- "$storage"
  fi
  end_marker "$status"
  exec >/dev/null 2>&1 8>&- # the writer reads the end of its input, sends the rest and exits
  wait "$writer"
  rm -rf -- "$private"
  exit "$status"
}
trap finish EXIT
ended=0 # the exit code of the job if a signal has arrived; then no further step starts
trap 'ended=130' INT
trap 'ended=143' TERM

# --- Output: to Slurm's file and to the grid's logger, with one pipe for each stream ---
# A writer that was killed is started again. If no writer runs, the output is only in the file.
mkfifo -- "$private/stderr" "$private/grid"
# Both are open for reading and writing, so that neither the open nor a missing reader blocks or
# ends the script.
exec 3<>"$private/stderr" 8<>"$private/grid"
exec > >(
  trap '' INT TERM # the writer ends at the end of the output
  exec 3<"$private/stderr" 4<"$private/grid" 8>&-
  streams=3,4
  for _ in {1..50}; do
    /opt/gridstead/venv/bin/gridstead-log-writer "$private/logger" "$streams" && exit
    [ $? -le 128 ] || continue
    [ "$streams" != 3 ] || break
    streams=3 # a writer of an earlier release reads no messages of the grid
    cat <&4 >/dev/null 2>&1 &
  done
  cat <&4 >/dev/null 2>&1 &
  cat <&3 &
  stderr=$!
  cat
  wait "$stderr"
)
writer=$!
exec 2>"$private/stderr" 3>&-

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

# --- Resources ---
export NTASKS=3 CPUS_PER_TASK=1 MEM_PER_CPU=64 GPUS=0
export CPUS=3 MEM=192

# --- Storage ---
export STORAGE_PATH="$storage"
export DEEPSQUARE_INPUT="$storage/input" DEEPSQUARE_OUTPUT="$storage/output"
export DEEPSQUARE_ENV="$storage/env"
export DEEPSQUARE_TMP="/opt/cache/persistent/user-$UID"
export DEEPSQUARE_SHARED_TMP="$DEEPSQUARE_TMP"
export DEEPSQUARE_SHARED_WORLD_TMP="/opt/cache/world-tmp"
export DEEPSQUARE_DISK_TMP="/opt/cache/disk/tmp/user-$UID"
export DEEPSQUARE_DISK_WORLD_TMP="/opt/cache/disk/world-tmp"
# For container programs that a step calls itself. Slurm removes the private /tmp after the job.
export ENROOT_CACHE_PATH="$DEEPSQUARE_DISK_TMP/enroot/cache"
export ENROOT_DATA_PATH="$DEEPSQUARE_DISK_TMP/enroot/data"
export ENROOT_RUNTIME_PATH="/tmp/enroot-$UID" APPTAINER_TMPDIR=/tmp
(umask 077 && mkdir -p -- "$storage/input" "$storage/output")
: >"$storage/env"
cd -- "$storage"

# --- Environment ---
# Exports the variables of the job, then what earlier steps wrote to DEEPSQUARE_ENV.
# Exports its arguments last.
job_environment() { # NAME=value of enclosing steps
  local gridstead_line gridstead_lines=()
  if [ -f "$storage/env" ]; then mapfile -t gridstead_lines <"$storage/env"; fi
  set +e # an invalid variable is reported and does not end the job
  for gridstead_line in "${gridstead_lines[@]}"; do
    if [[ $gridstead_line == \#* ]]; then continue; fi # a comment
    if [[ ! $gridstead_line =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || ! export "${gridstead_line?}"; then
      echo "ignored in DEEPSQUARE_ENV: $gridstead_line" >&2
    fi
  done
  if (($#)); then declare -gx -- "$@"; fi
  set -e
}

# --- Functions that run steps ---
# Runs steps one after the other until a step fails or a signal has arrived.
in_order() { # functions
  local each
  for each in "$@"; do
    ((ended == 0)) || return "$ended"
    "$each" || return
  done
  return "$ended"
}

# The paths of the marks of this shell's branch and of outer branches, each after a newline.
gridstead_marks=''

# Returns whether this shell is marked to end. The sender of a signal writes the mark, and then
# searches for processes. A process that starts after the search receives no signal, but finds the
# mark.
is_marked() {
  local gridstead_remaining=$gridstead_marks
  while [[ $gridstead_remaining ]]; do
    if [[ -e ${gridstead_remaining##*$'\n'} ]]; then return 0; fi
    gridstead_remaining=${gridstead_remaining%$'\n'*}
  done
  return 1
}

# The script of a shell that executes its arguments unless it is marked to end. This must be another
# shell: one that has handled signals may lose a pending signal when it executes a program.
unless_marked="$(declare -f is_marked); gridstead_marks=\$0; ! is_marked || exit 143; exec \"\$@\""

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
    set -- srun --immediate=60 "$@"
  else # no array: if the customer's IFS is \001, bash splits even the quoted words of an array
    set -- srun "--prolog=$gridstead_unmade" --immediate=5 "$@"
  fi
  [[ ! $gridstead_marks ]] || set -- /bin/bash -p -c "$unless_marked" "$gridstead_marks" "$@"
  trap 'gridstead_ended=yes' {1..8} {10..16} {24..27} {29..31} # senders signal srun too
  while [[ ! $gridstead_ended ]]; do
    gridstead_code=0 gridstead_tried_at=$EPOCHSECONDS
    "$@" || gridstead_code=$?
    if ((gridstead_code != 1)) || [[ $gridstead_ended || ! -x $gridstead_unmade ]] ||
      ((EPOCHSECONDS >= gridstead_started_at + 180)); then
      break
    fi
    if ((EPOCHSECONDS < gridstead_tried_at + 5 ||
      EPOCHSECONDS >= gridstead_started_at + 60)); then
      has_slurmctld_restarted "$gridstead_started_at" || break
    fi
    [[ $gridstead_reported ]] || echo "gridstead: Slurm did not create this step; retrying" >&2
    [[ $gridstead_reported ]] || marker "retry $gridstead_step"
    gridstead_reported=yes
    [[ $gridstead_ended ]] || sleep 2 || break
  done
  return "$gridstead_code"
}

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

# Starts a step in the background.
declare -A processes=() codes=() # of launched steps, by their numbers
launch() { # number, function
  run_branch "$2"
  processes[$1]=$!
}

# Waits for a launched step and returns its code, on every call. A skipped step has not failed.
await() { # number
  local code=0
  if [[ -v processes[$1] ]]; then
    wait_for_process "${processes[$1]}" || code=$?
    unset "processes[$1]"
    codes[$1]=$code
  fi
  return "${codes[$1]:-0}"
}

# Runs steps in order, then ends the launched steps among them. A launched step that fails by itself
# fails the list. If a signal ended the steps, it is forwarded to the launched steps instead of
# their own signals.
in_order_with_launches() { # numbers with the signals that end them, functions
  local each number code signal signalled=" " result=0
  in_order "${@:2}" || result=$?
  {
    for each in $1; do
      number=${each%:*} signal=${each#*:}
      if ((!ended && signal)) && [[ -v processes[$number] ]] &&
        kill -0 "${processes[$number]}"; then
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
  } 2>/dev/null # bash prints the source of processes that a signal ended
  return "$result"
}

# --- Steps ---
# Step 1: prepare

# Step 1.1
step_1_1_work() (
  set -- /bin/sh -c "$record_step" "$storage/.step-$BASHPID" "$@"
  new_step
  job_environment
  start --job-name=step-1.1 --export=ALL \
    --nodes=1-1 --ntasks=1 --cpus-per-task=1 --mem-per-cpu=64M \
    "$@" /bin/sh -c 'sleep 1; echo 42 >answer'
)
step_1_1() {
  in_step 1.1 '' '' step_1_1_work
}

step_1_launched_work() {
  in_order step_1_1
}
step_1_launched() {
  in_step 1 prepare '' step_1_launched_work
}
step_1() {
  launch 1 step_1_launched
}

# Step 2: serve

# Step 2.1
step_2_1_work() (
  set -- /bin/sh -c "$record_step" "$storage/.step-$BASHPID" "$@"
  new_step
  job_environment
  start --job-name=step-2.1 --export=ALL \
    --nodes=1-1 --ntasks=1 --cpus-per-task=1 --mem-per-cpu=64M \
    "$@" /bin/sh -c 'while [ ! -e question ]; do sleep 0.1; done; cat answer; sleep 1000'
)
step_2_1() {
  in_step 2.1 '' '' step_2_1_work
}

step_2_launched_work() {
  in_order step_2_1
}
step_2_launched() {
  in_step 2 serve '' step_2_launched_work
}
step_2() {
  launch 2 step_2_launched
}

# Step 3: ask
step_3_unguarded_work() (
  new_step
  job_environment
  start --job-name=ask --export=ALL \
    --nodes=1-1 --ntasks=1 --cpus-per-task=1 --mem-per-cpu=64M \
    /bin/sh -c 'touch question; sleep 1'
)
step_3_unguarded() {
  in_step 3 ask '' step_3_unguarded_work
}
step_3() {
  await 1 || return
  step_3_unguarded
}

# --- The job ---
in_order_with_launches '1:15 2:15' step_1 step_2 step_3 || exit

