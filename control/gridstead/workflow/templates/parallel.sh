
# Waits for processes; the code is that of the first, in their order, that failed. A signal that comes meanwhile goes to
# all of them and is the code.
all_of() { # processes
  local code result=0
  while (($#)); do
    tell "$@"
    code=0
    wait "$1" 2>/dev/null || code=$? # bash tells there of signals
    if ((code <= 128)) || ! kill -0 "$1" 2>/dev/null; then
      result=$((result ? result : code))
      shift
    fi
  done
  return "$((ended ? ended : result))"
}
