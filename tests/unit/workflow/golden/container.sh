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
export NTASKS=2 CPUS_PER_TASK=1 MEM_PER_CPU=256 GPUS=0
export CPUS=2 MEM=512

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

# --- Environment: of the job, then what earlier steps wrote to DEEPSQUARE_ENV ---
job_environment() {
  local gridstead_line gridstead_lines=()
  if [ -f "$storage/env" ]; then mapfile -t gridstead_lines <"$storage/env"; fi
  set +e # what cannot be set is named and ends nothing
  for gridstead_line in "${gridstead_lines[@]}"; do
    if [[ ! $gridstead_line =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || ! export "${gridstead_line?}"; then
      echo "ignored in DEEPSQUARE_ENV: $gridstead_line" >&2
    fi
  done
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

# --- Signals: Slurm gives them to the first process of a task alone, which passes them on here ---
catch_signals() { # what to do at each, pass_on if not given; its number comes after it
  local gridstead_each
  gridstead_child='' gridstead_early=''
  for gridstead_each in {1..8} {10..16} 18 {20..31}; do # not KILL and STOP, and not CHLD, its own
    # shellcheck disable=SC2064 # this one's number
    trap "${1-pass_on} $gridstead_each" "$gridstead_each"
  done
}

pass_on() { # signal
  if [[ $gridstead_child ]]; then kill -s "$1" "$gridstead_child" 2>/dev/null; else gridstead_early=$1; fi
}

# Runs words after catch_signals; what comes after them is not ended by a signal. A shell that no signal hurries waits for
# them and tells their process and their code by a pipe, which ends with it: bash's wait may lose a code when a signal
# comes just then, and so may a read that has a time limit when the code does.
run_passing_on() { # words
  local gridstead_code='' gridstead_pipe gridstead_told
  exec {gridstead_pipe}<> <(:)
  exec {gridstead_told}<"/dev/fd/$gridstead_pipe"
  (
    exec {gridstead_told}<&-
    catch_signals :
    # INT and QUIT bash takes away from what runs beside it.
    env --default-signal=INT,QUIT -- /bin/bash -c 'gridstead_pipe=$0; echo "$$" >&"$0"; exec "$@" {gridstead_pipe}>&-' \
      "$gridstead_pipe" "$@" || gridstead_code=$?
    echo "${gridstead_code:-0}" >&"$gridstead_pipe"
  ) <&0 &
  exec {gridstead_pipe}>&-
  until read -r -u "$gridstead_told" gridstead_child || (($? == 1)); do :; done
  if [[ $gridstead_early ]]; then pass_on "$gridstead_early"; fi
  until read -r -u "$gridstead_told" gridstead_code || (($? == 1)); do :; done
  trap '' HUP INT QUIT TERM
  exec {gridstead_told}<&-
  return "${gridstead_code:-137}" # somebody killed the shell that tells it
}

# --- Containers ---
# Sets runtime: Enroot where there is one and nobody asks for Apptainer.
find_runtime() { # any or apptainer
  runtime=apptainer
  if [[ $1 == any ]] && command -v enroot >/dev/null; then runtime=enroot; fi
  if ! command -v "$runtime" >/dev/null; then
    echo "gridstead: this node has no $runtime" >&2
    return 127
  fi
}

# Sets runtime and image: a file that is there.
find_image() { # runtime, path
  find_runtime "$1" || return
  image=$2
  if [[ ! -e $image ]]; then
    echo "gridstead: there is no image $image" >&2
    return 66
  fi
}

# Sets runtime and image: fetched from a registry by the first step that needs it.
fetch_image() { # runtime, number, name, registry, file with name and password
  find_runtime "$1" || return
  image=$storage/.image-$2-$runtime
  (
    flock 9
    [[ ! -e $image ]] || exit 0
    echo "gridstead: fetching the image ${4:+$4/}$3"
    "fetch_with_$runtime" "$3" "$4" "$5" && mv -- "$image.part" "$image"
  ) 9>"$image.lock"
}

fetch_with_apptainer() { # name, registry, file with name and password
  local access=()
  if [[ -n $3 ]]; then mapfile -t access <"$3"; fi
  (
    if [[ -n $3 ]]; then export APPTAINER_DOCKER_USERNAME="${access[0]}" APPTAINER_DOCKER_PASSWORD="${access[1]}"; fi
    exec apptainer --quiet pull --disable-cache --force "$image.part" "docker://${2:+$2/}$1"
  )
}

fetch_with_enroot() { # name, registry, file with name and password
  local access=() name=$1 code=0 config host=${2%:*}
  config=$(mktemp -d "${TMPDIR:-/tmp}/gridstead.XXXXXX")
  if [[ -z $2 && $1 != */* ]]; then name=library/$1; fi
  if [[ -n $3 ]]; then
    mapfile -t access <"$3"
    (umask 077 && printf 'machine %s login %s password %s\n' "${host:-auth.docker.io}" "${access[@]:0:2}" >"$config/.credentials")
  fi
  ENROOT_CONFIG_PATH=$config ENROOT_CACHE_PATH=$config/cache ENROOT_TEMP_PATH=$config \
    enroot import --output "$image.part" "docker://${access:+${access[0]}@}${2:+$2#}$name" || code=$?
  rm -rf -- "$config"
  return "$code"
}

# The rest runs on the node of a task, among the customer's variables, so ours have long names.
# Sets what a container sees of the job's folders; what is not on this node is not in the container either.
folders() { # the job's folder, the caches, the name of the file of variables in the job's folder
  local gridstead_pair
  (umask 077 && mkdir -p -- "$2/disk/tmp/user-$UID") 2>/dev/null
  for gridstead_pair in "$1:/deepsquare" "$2/persistent/user-$UID:/deepsquare/tmp" "$2/world-tmp:/deepsquare/world-tmp" \
    "$2/disk/tmp/user-$UID:/deepsquare/disk/tmp" "$2/disk/world-tmp:/deepsquare/disk/world-tmp"; do
    if [[ -d ${gridstead_pair/:*/} ]]; then gridstead_mounts+=("$gridstead_pair"); fi
  done
  gridstead_variables=(
    STORAGE_PATH=/deepsquare DEEPSQUARE_INPUT=/deepsquare/input DEEPSQUARE_OUTPUT=/deepsquare/output
    DEEPSQUARE_ENV="/deepsquare/$3" DEEPSQUARE_TMP=/deepsquare/tmp DEEPSQUARE_SHARED_TMP=/deepsquare/tmp
    DEEPSQUARE_SHARED_WORLD_TMP=/deepsquare/world-tmp DEEPSQUARE_DISK_TMP=/deepsquare/disk/tmp
    DEEPSQUARE_DISK_WORLD_TMP=/deepsquare/disk/world-tmp
  )
}

in_apptainer() { # image, the job's folder, the caches, file of variables, options, --, exec or run, words
  local -r gridstead_image=$1
  local gridstead_mounts=() gridstead_variables=() gridstead_options=(--contain --no-eval --no-home) gridstead_each
  folders "$2" "$3" "$4"
  for gridstead_each in "${gridstead_variables[@]}"; do export "APPTAINERENV_$gridstead_each"; done
  shift 4
  while [[ $1 != -- ]]; do
    case $1 in
    --env=*) gridstead_each=${1#*=} && export "APPTAINERENV_$gridstead_each=${!gridstead_each}" ;;
    --work-dir=*) gridstead_options+=(--pwd "${1#*=}") ;;
    --writable) gridstead_options+=(--writable-tmpfs) ;;
    --root) gridstead_options+=(--fakeroot) ;;
    --home) gridstead_mounts+=("$HOME:$HOME") ;;
    --x11) if [[ -d /tmp/.X11-unix ]]; then gridstead_mounts+=(/tmp/.X11-unix:/tmp/.X11-unix:ro); fi ;;
    --gpus) gridstead_options+=(--nv) ;;
    --mount=*) gridstead_mounts+=("${1#*=}") ;;
    esac
    shift
  done
  for gridstead_each in "${gridstead_mounts[@]}"; do gridstead_options+=(--bind "$gridstead_each"); done
  exec apptainer --quiet "$2" "${gridstead_options[@]}" "$gridstead_image" "${@:3}"
}

in_enroot() { # image, the job's folder, the caches, file of variables, options, --, exec or run, words
  local -r gridstead_image=$1 gridstead_name=gridstead-$SLURM_JOB_ID-${SLURM_STEP_ID:-0}-${SLURM_PROCID:-0}
  local gridstead_mounts=() gridstead_variables=() gridstead_options=() gridstead_each
  local -r gridstead_quote="'\\''"
  local gridstead_own=" " gridstead_exports="" gridstead_work_dir=/ gridstead_code=0 gridstead_place
  folders "$2" "$3" "$4"
  shift 4
  while [[ $1 != -- ]]; do
    case $1 in
    --env=*) gridstead_own+="${1#*=} " ;;
    --work-dir=*) gridstead_work_dir=${1#*=} ;;
    --writable) gridstead_options+=(--rw) ;;
    --root) gridstead_options+=(--root) ;;
    --home) gridstead_mounts+=("$HOME:$HOME") ;;
    --x11) if [[ -d /tmp/.X11-unix ]]; then gridstead_mounts+=(/tmp/.X11-unix:/tmp/.X11-unix:ro); fi ;;
    --mount=*) gridstead_mounts+=("${1#*=}") ;;
    esac
    shift
  done
  for gridstead_each in "${gridstead_mounts[@]}"; do gridstead_options+=(--mount "$gridstead_each"); done
  gridstead_place=$(mktemp -d "${TMPDIR:-/tmp}/gridstead.XXXXXX")
  catch_signals
  mkdir -- "$gridstead_place/run" "$gridstead_place/cache" "$gridstead_place/data"
  for gridstead_each in "${gridstead_variables[@]}"; do
    if [[ $gridstead_own != *" ${gridstead_each/=*/} "* ]]; then export "${gridstead_each?}"; fi
  done
  # Enroot's own way holds plain values; the shell in the container gets all, quoted. What is Enroot's is not the image's.
  for gridstead_each in $(compgen -e); do
    case $gridstead_each in PATH | HOME | LD_LIBRARY_PATH) continue ;; esac # the image's own
    gridstead_exports+="export $gridstead_each='${!gridstead_each//\'/$gridstead_quote}'"$'\n'
    if [[ $gridstead_each == ENROOT_* ]]; then
      if [[ $gridstead_own == *" $gridstead_each "* ]]; then unset -v "$gridstead_each"; fi
    elif [[ ${!gridstead_each} =~ ^[A-Za-z0-9_./:,@%+=-]*$ ]]; then
      gridstead_options+=(--env "$gridstead_each")
    fi
  done
  export ENROOT_RUNTIME_PATH=$gridstead_place/run ENROOT_CACHE_PATH=$gridstead_place/cache
  export ENROOT_DATA_PATH=$gridstead_place/data
  # Without this an image's own entry point would run the command.
  printf "rc() {\n%scd '%s' && exec \"\$@\"\n}\n" "$gridstead_exports" "${gridstead_work_dir//\'/$gridstead_quote}" \
    >"$gridstead_place/rc"
  if [[ $2 == exec ]]; then gridstead_options+=(--conf "$gridstead_place/rc"); fi
  if enroot create --name "$gridstead_name" "$gridstead_image"; then
    if [[ $2 == run ]]; then # the entry point reads this file before all else
      mkdir -p -- "$gridstead_place/data/$gridstead_name/etc"
      printf '%s' "$gridstead_exports" >>"$gridstead_place/data/$gridstead_name/etc/rc.local"
    fi
    run_passing_on enroot start "${gridstead_options[@]}" "$gridstead_name" "${@:3}" || gridstead_code=$?
  else
    gridstead_code=$?
  fi
  trap '' HUP INT QUIT TERM # what cleans up is not ended
  enroot remove --force "$gridstead_name" >/dev/null 2>&1
  rm -rf -- "$gridstead_place"
  return "$gridstead_code"
}

in_container() { # apptainer or enroot, and what that is told
  if ! command -v "$1" >/dev/null; then
    echo "gridstead: this node has no $1" >&2
    return 127
  fi
  "in_$1" "${@:2}"
}
in_container="$(declare -f folders in_apptainer in_enroot in_container catch_signals pass_on run_passing_on)
in_container \"\$0\" \"\$@\""
mkdir -p -- "$storage/tmp" "$storage/world-tmp" "$storage/disk/tmp" "$storage/disk/world-tmp"

# --- Steps ---
# Step 1: tell the release
step_1() (
  fetch_image any 1 library/debian:12-slim '' '' || exit
  set -- /bin/bash -c "$in_container" "$runtime" "$image" "$storage" /opt/cache env
  new_step
  job_environment
  start --job-name='tell the release' --export=ALL --nodes=1-1 --ntasks=1 --cpus-per-task=1 --mem-per-cpu=256M \
    "$@" --work-dir=/ --writable -- exec /bin/sh -c 'cat /etc/debian_version >"$DEEPSQUARE_OUTPUT/version"'
)

# Step 2: look from outside
step_2() (
  new_step
  job_environment
  start --job-name='look from outside' --export=ALL --nodes=1-1 --ntasks=1 --cpus-per-task=1 --mem-per-cpu=256M \
    /bin/sh -c 'cat "$DEEPSQUARE_OUTPUT/version"'
)

# Step 3: two at once
step_3() (
  fetch_image any 1 library/debian:12-slim '' '' || exit
  set -- /bin/bash -c "$in_container" "$runtime" "$image" "$storage" /opt/cache env
  new_step
  job_environment
  start --job-name='two at once' --export=ALL --nodes=1-2 --ntasks=2 --cpus-per-task=1 --mem-per-cpu=256M \
    "$@" --work-dir=/deepsquare/output -- exec /bin/sh -c 'echo "task $SLURM_PROCID reads $(cat version)"'
)

# --- The job ---
in_order step_1 step_2 step_3 || exit
