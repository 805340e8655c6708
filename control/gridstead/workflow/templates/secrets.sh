# --- Secrets ---
# Secrets are passed in the environment. The script starts again without them, reads them from a
# pipe, and writes them to private files after it has set a trap that removes the files. No code of
# the customer runs before that: the profile was read by the first shell, and BASH_ENV is set again
# at the end.
if [ $# -eq 0 ]; then
  exec env%%{unset} \
    -u BASH_ENV /bin/bash "$0" "${BASH_ENV-}" 3< <(
%%{writes}    )
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

