# --- Output: to Slurm's file and to the grid's logger. Should the writer be missing or die, the file is enough. ---
exec > >(
  trap '' INT TERM # it ends when the output does
  %%{writer} "$private/logger" || exec cat
) 2>&1
writer=$!

