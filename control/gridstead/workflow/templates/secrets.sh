# --- Secrets ---
# They come in the environment. They go into files that nobody else can read, and the script starts again without them.
if [ $# -eq 0 ]; then
  private=$(mktemp -d "${TMPDIR:-/tmp}/gridstead.XXXXXX")
  trap 'rm -rf -- "$private"' EXIT
  (
    umask 077
%%{files}  )
  # Nothing of the customer's runs until there is a trap again: the profile has been read, BASH_ENV waits.
  exec env%%{unset} -u BASH_ENV \
    /bin/bash "$0" "$private" "${BASH_ENV-}"
fi
private=$1 writer=
trap 'rm -rf -- "$private"' EXIT # until there is more to clean up
if [ -n "$2" ]; then export BASH_ENV="$2"; fi

