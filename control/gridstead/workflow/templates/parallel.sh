
# Waits for processes; the code is that of the first, in their order, that failed. A signal that comes meanwhile goes to
# all of them and is the code.
all_of() { # processes
  local each code result=0 told=0
  while (($#)); do
    if ((ended && !told)); then
      told=1
      for each in "$@"; do signal_tree TERM "$each"; done
    fi
    code=0
    wait "$1" 2>/dev/null || code=$? # bash tells there of signals
    if ((code > 128)) && kill -0 "$1" 2>/dev/null; then
      told=0
    else
      result=$((result ? result : code))
      shift
    fi
  done
  return "$((ended ? ended : result))"
}
