
# Writes markers of the output: its size, and its first files in the order of their names.
output_markers() {
  local LC_ALL=C files bytes size name
  if read -r files bytes < <(find "$storage/output" -type f -printf '%s\n' |
    awk '{ bytes += $1 } END { printf "%d %.0f\n", NR, bytes }'); then
    marker "output files=$files bytes=$bytes"
  fi
  while IFS=/ read -r -d '' size name; do
    name=${name//[^ -~]/?}
    marker "file bytes=$size" "${name:0:200}"
  done < <(find "$storage/output" -type f -printf '%s/%P\0' | LC_ALL=C sort -z -t / -k 2 | head -z -n 50)
}
output_markers
