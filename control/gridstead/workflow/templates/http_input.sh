
# --- Input ---
# Unpacks a file into its own directory. The type is detected from the content, not from the name.
unpack() { # file
  local start target=${1%.*}
  [[ $1 == ./*.* ]] || target=$1.unpacked
  start=$(head -c 6 -- "$1" | od -An -tx1 | tr -d ' \n')
  if [[ -n $(tar -tf "$1" 2>/dev/null) ]]; then
    tar -xf "$1" --no-same-owner
    return
  fi
  case $start in
  504b0304* | 504b0506*) python3 -m zipfile -e "$1" . ;;
  1f8b*) gzip -dc -- "$1" >"$target" ;;
  425a68*) bzip2 -dc -- "$1" >"$target" ;;
  fd377a585a00) xz -dc -- "$1" >"$target" ;;
  526172211a07) unrar x -- "$1" ;;
  377abcaf271c) 7z x -- "$1" ;;
  *) echo "gridstead: the input is not an archive" ;;
  esac
}
echo "gridstead: fetching the input"
(
  cd -- "$storage/input"
  curl --fail --location --silent --show-error --retry 3 --globoff --output ./%%{name} %%{source}
  unpack ./%%{name}
)
