# --- Output: to Slurm's file and to the grid's logger. A writer that is killed goes on; without one the file is enough. ---
exec > >(
  trap '' INT TERM # it ends when the output does
  for _ in {1..50}; do
    %%{writer} "$private/logger" && exit
    [ $? -gt 128 ] || break
  done
  exec cat
) 2>&1
writer=$!

