
# --- Signals: Slurm signals only the first process of a task, which forwards the signal ---
catch_signals() { # the handler of a signal, which receives its number; default: forward_signal
  local gridstead_each
  gridstead_child='' gridstead_early=''
  for gridstead_each in {1..8} {10..16} 18 {20..31}; do # not KILL, STOP and CHLD
    # shellcheck disable=SC2064 # the number is expanded now
    trap "${1-forward_signal} $gridstead_each" "$gridstead_each"
  done
}

forward_signal() { # signal
  if [[ $gridstead_child ]]; then
    kill -s "$1" "$gridstead_child" 2>/dev/null
  else
    gridstead_early=$1
  fi
}

# Runs words and returns their exit code. Call catch_signals before. A subshell that ignores signals
# waits for the words, and writes their process id and their exit code to a pipe. This shell reads
# the pipe, because the wait of bash may lose a code if a signal arrives at the same time. A read
# with a timeout may lose a code too.
run_forwarding_signals() { # words
  local gridstead_code='' gridstead_pipe gridstead_reader
  exec {gridstead_pipe}<> <(:)
  exec {gridstead_reader}<"/dev/fd/$gridstead_pipe"
  (
    exec {gridstead_reader}<&-
    catch_signals :
    # A background process of bash ignores INT and QUIT.
    env --default-signal=INT,QUIT -- /bin/bash -c \
      'gridstead_pipe=$0; echo "$$" >&"$0"; exec "$@" {gridstead_pipe}>&-' \
      "$gridstead_pipe" "$@" || gridstead_code=$?
    echo "${gridstead_code:-0}" >&"$gridstead_pipe"
  ) <&0 &
  exec {gridstead_pipe}>&-
  until read -r -u "$gridstead_reader" gridstead_child || (($? == 1)); do :; done
  if [[ $gridstead_early ]]; then forward_signal "$gridstead_early"; fi
  until read -r -u "$gridstead_reader" gridstead_code || (($? == 1)); do :; done
  trap '' HUP INT QUIT TERM
  exec {gridstead_reader}<&-
  return "${gridstead_code:-137}" # the subshell was killed before it wrote the code
}
