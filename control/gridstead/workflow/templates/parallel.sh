
# Waits for processes and returns the code of the first one that failed, in the order of the
# arguments. A signal that arrives during the wait is sent to all of them and is the code.
wait_for_all() { # processes
  local code result=0
  while (($#)); do
    send_end_signal "$@"
    code=0
    wait "$1" 2>/dev/null || code=$? # bash prints messages about signals there
    if ((code <= 128)) || ! kill -0 "$1" 2>/dev/null; then
      result=$((result ? result : code))
      shift
    fi
  done
  return "$((ended ? ended : result))"
}
