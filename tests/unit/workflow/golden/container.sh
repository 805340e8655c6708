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
export NTASKS=2 CPUS_PER_TASK=1 MEM_PER_CPU=256 GPUS=0
export CPUS=2 MEM=512

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
job_environment() {
  local gridstead_line gridstead_lines=()
  if [ -f "$storage/env" ]; then mapfile -t gridstead_lines <"$storage/env"; fi
  set +e # an invalid variable is reported and does not end the job
  for gridstead_line in "${gridstead_lines[@]}"; do
    if [[ $gridstead_line == \#* ]]; then continue; fi # a comment
    if [[ ! $gridstead_line =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || ! export "${gridstead_line?}"; then
      echo "ignored in DEEPSQUARE_ENV: $gridstead_line" >&2
    fi
  done
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

# --- Signals: Slurm signals only the first process of a task, which forwards the signal ---
catch_signals() { # the handler of a signal, which receives its number; default: forward_signal
  local gridstead_each
  gridstead_child='' gridstead_early=''
  for gridstead_each in {1..8} {10..16} 18 {20..31}; do # not KILL, STOP and CHLD
    # shellcheck disable=SC2064 # the number is expanded now
    trap "${1-forward_signal} $gridstead_each" "$gridstead_each"
  done
}

forward_signal() { # signal
  if [[ $gridstead_child ]]; then
    kill -s "$1" "$gridstead_child" 2>/dev/null
  else
    gridstead_early=$1
  fi
}

# Runs words and returns their exit code. Call catch_signals before. A subshell that ignores signals
# waits for the words, and writes their process id and their exit code to a pipe. This shell reads
# the pipe, because the wait of bash may lose a code if a signal arrives at the same time. A read
# with a timeout may lose a code too.
run_forwarding_signals() { # words
  local gridstead_code='' gridstead_pipe gridstead_reader
  exec {gridstead_pipe}<> <(:)
  exec {gridstead_reader}<"/dev/fd/$gridstead_pipe"
  (
    exec {gridstead_reader}<&-
    catch_signals :
    # A background process of bash ignores INT and QUIT.
    env --default-signal=INT,QUIT -- /bin/bash -c \
      'gridstead_pipe=$0; echo "$$" >&"$0"; exec "$@" {gridstead_pipe}>&-' \
      "$gridstead_pipe" "$@" || gridstead_code=$?
    echo "${gridstead_code:-0}" >&"$gridstead_pipe"
  ) <&0 &
  exec {gridstead_pipe}>&-
  until read -r -u "$gridstead_reader" gridstead_child || (($? == 1)); do :; done
  if [[ $gridstead_early ]]; then forward_signal "$gridstead_early"; fi
  until read -r -u "$gridstead_reader" gridstead_code || (($? == 1)); do :; done
  trap '' HUP INT QUIT TERM
  exec {gridstead_reader}<&-
  return "${gridstead_code:-137}" # the subshell was killed before it wrote the code
}

# --- Containers ---
# Sets runtime: Enroot if the node has it and the step does not require Apptainer.
find_runtime() { # any or apptainer
  runtime=apptainer
  if [[ $1 == any ]] && command -v enroot >/dev/null; then runtime=enroot; fi
  if ! command -v "$runtime" >/dev/null; then
    echo "gridstead: this node has no $runtime" >&2
    return 127
  fi
}

# Sets runtime and image for an image that is a file on the node.
find_image() { # runtime, path
  find_runtime "$1" || return
  image=$2
  if [[ ! -e $image ]]; then
    echo "gridstead: image $image does not exist" >&2
    return 66
  fi
}

# Sets runtime and image for an image from a registry. The first step that needs the image fetches
# it.
fetch_image() { # runtime, number, name, registry, file with user name and password
  find_runtime "$1" || return
  image=$storage/.image-$2-$runtime
  (
    flock 9
    [[ ! -e $image ]] || exit 0
    echo "gridstead: fetching the image ${4:+$4/}$3"
    "fetch_with_$runtime" "$3" "$4" "$5" && mv -- "$image.part" "$image"
  ) 9>"$image.lock"
}

# Sets work_dir to the working directory of the image. It is empty for Enroot, which knows it.
# Apptainer does not use it, but the last JSON object in the file of an image from a registry is the
# configuration of the image.
find_work_dir() {
  local line number=''
  work_dir=''
  if [[ $runtime == enroot ]]; then return; fi
  while read -r line; do
    if [[ $line =~ ^([0-9]+)\ .*JSON ]]; then number=${BASH_REMATCH[1]}; fi
  done < <(apptainer --quiet sif list "$image" 2>/dev/null)
  work_dir=/
  if [[ $number && $(apptainer --quiet sif dump "$number" "$image") =~ \
    .*\"WorkingDir\":\"(/[^\"\\]*)\" ]]; then
    work_dir=${BASH_REMATCH[1]}
  fi
}

fetch_with_apptainer() { # name, registry, file with user name and password
  local access=()
  if [[ -n $3 ]]; then mapfile -t access <"$3"; fi
  (
    if [[ -n $3 ]]; then
      export APPTAINER_DOCKER_USERNAME="${access[0]}" APPTAINER_DOCKER_PASSWORD="${access[1]}"
    fi
    exec apptainer --quiet pull --disable-cache --force "$image.part" "docker://${2:+$2/}$1"
  )
}

fetch_with_enroot() { # name, registry, file with user name and password
  local access=() code=0 config host=${2%:*}
  config=$(mktemp -d "${TMPDIR:-/tmp}/gridstead.XXXXXX")
  if [[ -n $3 ]]; then
    mapfile -t access <"$3"
    (
      umask 077
      printf 'machine %s login %s password %s\n' "${host:-auth.docker.io}" "${access[@]:0:2}" \
        >"$config/.credentials"
    )
  fi
  ENROOT_CONFIG_PATH=$config ENROOT_CACHE_PATH=$config/cache ENROOT_TEMP_PATH=$config \
    ENROOT_DATA_PATH=$config/data ENROOT_RUNTIME_PATH=$config/run \
    enroot import --output "$image.part" "docker://${access:+${access[0]}@}${2:+$2#}$1" ||
      code=$?
  rm -rf -- "$config"
  return "$code"
}

# The rest runs on the node of a task, with the customer's variables, so its names have a prefix.
# Sets the mounts of the job's folders and the variables with their paths. A folder that does not
# exist on this node is not mounted.
# The customer's user id is an argument, because it may be mapped to another id here.
set_container_paths() { # the job's folder, the cache, name of the file of variables, user id
  local gridstead_pair
  (umask 077 && mkdir -p -- "$2/disk/tmp/user-$4") 2>/dev/null
  for gridstead_pair in "$1:/deepsquare" "$2/persistent/user-$4:/deepsquare/tmp" \
    "$2/world-tmp:/deepsquare/world-tmp" "$2/disk/tmp/user-$4:/deepsquare/disk/tmp" \
    "$2/disk/world-tmp:/deepsquare/disk/world-tmp"; do
    if [[ -d ${gridstead_pair/:*/} ]]; then gridstead_mounts+=("$gridstead_pair"); fi
  done
  gridstead_variables=(
    STORAGE_PATH=/deepsquare DEEPSQUARE_INPUT=/deepsquare/input DEEPSQUARE_OUTPUT=/deepsquare/output
    DEEPSQUARE_ENV="/deepsquare/$3"
    DEEPSQUARE_TMP=/deepsquare/tmp DEEPSQUARE_SHARED_TMP=/deepsquare/tmp
    DEEPSQUARE_SHARED_WORLD_TMP=/deepsquare/world-tmp DEEPSQUARE_DISK_TMP=/deepsquare/disk/tmp
    DEEPSQUARE_DISK_WORLD_TMP=/deepsquare/disk/world-tmp
  )
}

# Arguments: image, the job's folder, the cache, file of variables, user id, options, --, exec or
# run, words.
in_apptainer() {
  local -r gridstead_image=$1
  local gridstead_mounts=() gridstead_variables=() gridstead_each
  local gridstead_options=(--contain --no-eval --no-home --workdir "$gridstead_place/work")
  mkdir -- "$gridstead_place/work" # contains /tmp and /var/tmp of the container
  set_container_paths "${@:2:4}"
  for gridstead_each in "${gridstead_variables[@]}"; do export "APPTAINERENV_$gridstead_each"; done
  shift 5
  while [[ $1 != -- ]]; do
    case $1 in
    --env=*) gridstead_each=${1#*=} && export "APPTAINERENV_$gridstead_each=${!gridstead_each}" ;;
    --work-dir=*) gridstead_options+=(--pwd "${1#*=}") ;;
    --writable)
      mkdir -- "$gridstead_place/written"
      gridstead_options+=(--overlay "$gridstead_place/written")
      ;;
    --root) gridstead_options+=(--fakeroot) ;;
    --root-of-network) ;; # the user is root already; --fakeroot might create a user namespace
    --map-user=* | --map-group=*)
      echo "gridstead: Apptainer can map only to user 0 and group 0" >&2
      return 78
      ;;
    --home) gridstead_mounts+=("$HOME:$HOME") ;;
    --x11)
      if [[ -d /tmp/.X11-unix ]]; then
        gridstead_mounts+=(/tmp/.X11-unix:/tmp/.X11-unix:ro)
      fi
      ;;
    --gpus) gridstead_options+=(--nv) ;;
    --mount=*) gridstead_mounts+=("${1#*=}") ;;
    esac
    shift
  done
  for gridstead_each in "${gridstead_mounts[@]}"; do
    gridstead_options+=(--bind "$gridstead_each")
  done
  run_forwarding_signals apptainer --quiet "$2" "${gridstead_options[@]}" "$gridstead_image" \
    "${@:3}"
}

# Arguments: image, the job's folder, the cache, file of variables, user id, options, --, exec or
# run, words.
in_enroot() {
  local -r gridstead_image=$1
  local -r gridstead_name=gridstead-$SLURM_JOB_ID-${SLURM_STEP_ID:-0}-${SLURM_PROCID:-0}
  local gridstead_mounts=() gridstead_variables=() gridstead_options=() gridstead_each gridstead_etc
  local gridstead_map=() gridstead_own=" " gridstead_exports="" gridstead_work_dir=""
  local gridstead_value gridstead_code=0
  local -A gridstead_assigned=()
  local -r gridstead_quote="'\\''"
  set_container_paths "${@:2:4}"
  shift 5
  while [[ $1 != -- ]]; do
    case $1 in
    --env=*) gridstead_own+="${1#*=} " ;;
    --work-dir=*) gridstead_work_dir=${1#*=} ;;
    --writable) gridstead_options+=(--rw) ;;
    --root | --root-of-network) gridstead_options+=(--root) ;;
    --map-user=* | --map-group=*) gridstead_map+=("$1") ;;
    --home) gridstead_mounts+=("$HOME:$HOME") ;;
    --x11)
      if [[ -d /tmp/.X11-unix ]]; then
        gridstead_mounts+=(/tmp/.X11-unix:/tmp/.X11-unix:ro)
      fi
      ;;
    --mount=*) gridstead_mounts+=("${1#*=}") ;;
    esac
    shift
  done
  for gridstead_each in "${gridstead_mounts[@]}"; do
    gridstead_options+=(--mount "$gridstead_each")
  done
  mkdir -- "$gridstead_place/run" "$gridstead_place/cache" "$gridstead_place/data"
  for gridstead_each in "${gridstead_variables[@]}"; do
    if [[ $gridstead_own != *" ${gridstead_each/=*/} "* ]]; then export "${gridstead_each?}"; fi
    gridstead_own+="${gridstead_each/=*/} "
  done
  for gridstead_each in $(compgen -e); do
    if [[ $gridstead_own != *" $gridstead_each "* ]]; then
      # the image's own variables, and the settings of Enroot
      case $gridstead_each in PATH | HOME | LD_LIBRARY_PATH | ENROOT_*) continue ;; esac
    fi
    gridstead_value=${!gridstead_each//\'/$gridstead_quote}
    gridstead_assigned[$gridstead_each]="export $gridstead_each='$gridstead_value'"
    if [[ $gridstead_each == ENROOT_* ]]; then unset -v "$gridstead_each"; fi # not for Enroot
  done
  export ENROOT_RUNTIME_PATH=$gridstead_place/run ENROOT_CACHE_PATH=$gridstead_place/cache
  export ENROOT_DATA_PATH=$gridstead_place/data
  enroot create --name "$gridstead_name" "$gridstead_image" || return
  gridstead_etc=$gridstead_place/data/$gridstead_name/etc
  # The variables of the image replace variables of the node, but not those of the workflow.
  if [[ -f $gridstead_etc/environment ]]; then
    while IFS='=' read -r gridstead_each _; do
      if [[ $gridstead_each =~ ^[A-Za-z_][A-Za-z0-9_]*$ &&
        $gridstead_own != *" $gridstead_each "* ]]; then
        unset -v "gridstead_assigned[$gridstead_each]"
      fi
    done <"$gridstead_etc/environment"
  fi
  # The option --env of Enroot passes plain values only. The shell in the container exports all
  # variables, quoted.
  for gridstead_each in "${!gridstead_assigned[@]}"; do
    gridstead_exports+=${gridstead_assigned[$gridstead_each]}$'\n'
    if [[ $gridstead_each != ENROOT_* &&
      ${!gridstead_each} =~ ^[A-Za-z0-9_./:,@%+=-]*$ ]]; then
      gridstead_options+=(--env "$gridstead_each")
    fi
  done
  if [[ $2 == run ]]; then # the entry point reads this file first
    mkdir -p -- "$gridstead_etc"
    printf '%s' "$gridstead_exports" >>"$gridstead_etc/rc.local"
  else # without the file rc, the entry point of the image would run the command
    if [[ ! $gridstead_work_dir ]]; then # Enroot has written the image's own to the entry point
      gridstead_work_dir=$(
        sed -n 's/^cd "\(.*\)" && unset OLDPWD.*/\1/p' "$gridstead_etc/rc" 2>/dev/null | tail -n 1
      )
      gridstead_work_dir=${gridstead_work_dir:-/}
    fi
    printf "rc() {\n%scd '%s' && exec \"\$@\"\n}\n" "$gridstead_exports" \
      "${gridstead_work_dir//\'/$gridstead_quote}" >"$gridstead_place/rc"
    gridstead_options+=(--conf "$gridstead_place/rc")
  fi
  if ((${#gridstead_map[@]})); then
    gridstead_map=(unshare --map-current-user "${gridstead_map[@]}" --mount --)
  fi
  run_forwarding_signals "${gridstead_map[@]}" enroot start "${gridstead_options[@]}" \
    "$gridstead_name" "${@:3}" || gridstead_code=$?
  trap '' HUP INT QUIT TERM # a signal must not interrupt the cleanup
  enroot remove --force "$gridstead_name" >/dev/null 2>&1
  return "$gridstead_code"
}

# What a container writes is on the disk of the node, in the private /tmp of the job, which Slurm
# removes if the job is killed.
in_container() { # folder for temporary files, apptainer or enroot, and its arguments
  local gridstead_place gridstead_status=0
  if ! command -v "$2" >/dev/null; then
    echo "gridstead: this node has no $2" >&2
    return 127
  fi
  gridstead_place=$(mktemp -d -- "$1/gridstead.XXXXXX") || return
  catch_signals
  "in_$2" "${@:3}" || gridstead_status=$?
  trap '' HUP INT QUIT TERM
  if ! rm -rf -- "$gridstead_place" 2>/dev/null; then # an image may have read-only folders
    chmod -R u+rwX -- "$gridstead_place" 2>/dev/null
    rm -rf -- "$gridstead_place" 2>/dev/null
  fi
  return "$gridstead_status"
}
in_container="$(declare -f set_container_paths in_apptainer in_enroot in_container)
$(declare -f catch_signals forward_signal run_forwarding_signals)
in_container \"\$0\" \"\$@\""
mkdir -p -- "$storage/tmp" "$storage/world-tmp" "$storage/disk/tmp" "$storage/disk/world-tmp"

# --- Steps ---
# Step 1: print the release
step_1_work() (
  fetch_image any 1 library/debian:12-slim '' '' && find_work_dir || exit
  set -- /bin/bash -c "$in_container" "${TMPDIR:-/tmp}" "$runtime" "$image" \
    "$storage" /opt/cache env "$UID" "--work-dir=$work_dir"
  new_step
  job_environment
  start --job-name='print the release' --export=ALL \
    --nodes=1-1 --ntasks=1 --cpus-per-task=1 --mem-per-cpu=256M \
    "$@" \
    --writable -- exec /bin/sh -c 'cat /etc/debian_version >"$DEEPSQUARE_OUTPUT/version"'
)
step_1() {
  in_step 1 'print the release' '' step_1_work
}

# Step 2: read it outside the container
step_2_work() (
  new_step
  job_environment
  start --job-name='read it outside the container' --export=ALL \
    --nodes=1-1 --ntasks=1 --cpus-per-task=1 --mem-per-cpu=256M \
    /bin/sh -c 'cat "$DEEPSQUARE_OUTPUT/version"'
)
step_2() {
  in_step 2 'read it outside the container' '' step_2_work
}

# Step 3: two tasks
step_3_work() (
  fetch_image any 1 library/debian:12-slim '' '' || exit
  set -- /bin/bash -c "$in_container" "${TMPDIR:-/tmp}" "$runtime" "$image" \
    "$storage" /opt/cache env "$UID"
  new_step
  job_environment
  start --job-name='two tasks' --export=ALL \
    --nodes=1-2 --ntasks=2 --cpus-per-task=1 --mem-per-cpu=256M \
    "$@" \
    --work-dir=/deepsquare/output -- exec /bin/sh -c 'echo "task $SLURM_PROCID reads $(cat version)"'
)
step_3() {
  in_step 3 'two tasks' '' step_3_work
}

# --- The job ---
in_order step_1 step_2 step_3 || exit

