
# Writes markers of the output: its size, and its first files in the order of their names.
output_markers() {
  local LC_ALL=C files bytes entry name
  read -r files bytes < <(find "$storage/output" -type f -printf '%s\n' |
    awk '{ bytes += $1 } END { printf "%d %.0f\n", NR, bytes }') || :
  marker "output files=$files bytes=$bytes"
  while IFS= read -r -d '' entry; do
    name=${entry#* }
    name=${name//[^ -~]/?}
    marker "file bytes=${entry%% *}" "${name:0:200}"
  done < <(find "$storage/output" -type f -printf '%s %P\0' | LC_ALL=C sort -z -k 2 | head -z -n 50)
}
output_markers
