# --- Secrets ---
# They come in the environment. They go into files that nobody else can read, and the script starts again without them.
if [ $# -eq 0 ]; then
  private=$(mktemp -d "${TMPDIR:-/tmp}/gridstead.XXXXXX")
  trap 'rm -rf -- "$private"' EXIT
  (
    umask 077
%%{files}  )
  exec env%%{unset} \
    /bin/bash -l "$0" "$private"
fi
private=$1 writer=
trap 'rm -rf -- "$private"' EXIT # until there is more to clean up

