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
    %%{writer} "$private/logger" "$streams" && exit
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

