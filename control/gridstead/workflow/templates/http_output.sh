
# --- Output ---
send_output() {
  local files=()
  mapfile -d '' files < <(find "$storage/output" -type f -print0)
  if ((${#files[@]} == 0)); then
    echo "gridstead: the output is empty"
    return
  fi
  if ((${#files[@]} > 1)); then
    (cd -- "$storage" && python3 -m zipfile -c output.zip output) || return
    files=("$storage/output.zip")
  fi
  echo "gridstead: sending the output"
  echo "-----"
  curl --fail --silent --show-error --globoff --upload-file "${files[0]}" %%{target}%%{tee} || return
  echo
  echo "-----"%%{link}
}
