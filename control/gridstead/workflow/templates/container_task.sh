
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
