
# --- Output ---
files=()
mapfile -d '' files < <(find "$storage/output" -type f -print0)
if ((${#files[@]} > 1)); then
  (cd -- "$storage/output" && python3 -m zipfile -c "$storage/output.zip" .)
  files=("$storage/output.zip")
fi
if ((${#files[@]})); then
  echo "gridstead: sending the output"
  echo "-----"
  curl --fail --silent --show-error --globoff --upload-file "${files[0]}" %%{target}%%{tee}
  echo
  echo "-----"%%{link}
else
  echo "gridstead: the output is empty"
fi
