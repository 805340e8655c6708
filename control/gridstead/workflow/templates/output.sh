# --- Output: to Slurm's file and to the grid's logger, with one pipe for each stream ---
# A writer that was killed is started again. If no writer runs, the output is only in the file.
mkfifo -- "$private/stderr"
exec 3<>"$private/stderr" # open for reading and writing, so that the open does not block
exec > >(
  trap '' INT TERM # the writer ends at the end of the output
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

