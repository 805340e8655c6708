# --- Output: to Slurm's file and to the grid's logger, stdout and stderr by a pipe each ---
# A writer that is killed goes on; without one the file is enough.
mkfifo -- "$private/stderr"
exec 3<>"$private/stderr" # both ends, so that neither waits for the other
exec > >(
  trap '' INT TERM # it ends when the output does
  exec 3<"$private/stderr"
  for _ in {1..50}; do
    %%{writer} "$private/logger" 3 && exit
    [ $? -gt 128 ] || break
  done
  cat <&3 &
  cat
  wait
)
writer=$!
exec 2>"$private/stderr" 3>&-

