
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
