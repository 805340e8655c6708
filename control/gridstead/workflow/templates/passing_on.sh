
# --- Signals: Slurm gives them to the first process of a task alone, which passes them on here ---
catch_signals() { # what to do at each, pass_on if not given; its number comes after it
  local gridstead_each
  gridstead_child='' gridstead_early=''
  for gridstead_each in {1..8} {10..16} 18 {20..31}; do # not KILL and STOP, and not CHLD, its own
    # shellcheck disable=SC2064 # this one's number
    trap "${1-pass_on} $gridstead_each" "$gridstead_each"
  done
}

pass_on() { # signal
  if [[ $gridstead_child ]]; then kill -s "$1" "$gridstead_child" 2>/dev/null; else gridstead_early=$1; fi
}

# Runs words after catch_signals; what comes after them is not ended by a signal. A shell that no signal hurries waits for
# them and tells their process and their code by a pipe, which ends with it: bash's wait may lose a code when a signal
# comes just then, and so may a read that has a time limit when the code does.
run_passing_on() { # words
  local gridstead_code='' gridstead_pipe gridstead_told
  exec {gridstead_pipe}<> <(:)
  exec {gridstead_told}<"/dev/fd/$gridstead_pipe"
  (
    exec {gridstead_told}<&-
    catch_signals :
    # INT and QUIT bash takes away from what runs beside it.
    env --default-signal=INT,QUIT -- /bin/bash -c 'gridstead_pipe=$0; echo "$$" >&"$0"; exec "$@" {gridstead_pipe}>&-' \
      "$gridstead_pipe" "$@" || gridstead_code=$?
    echo "${gridstead_code:-0}" >&"$gridstead_pipe"
  ) <&0 &
  exec {gridstead_pipe}>&-
  until read -r -u "$gridstead_told" gridstead_child || (($? == 1)); do :; done
  if [[ $gridstead_early ]]; then pass_on "$gridstead_early"; fi
  until read -r -u "$gridstead_told" gridstead_code || (($? == 1)); do :; done
  trap '' HUP INT QUIT TERM
  exec {gridstead_told}<&-
  return "${gridstead_code:-137}" # somebody killed the shell that tells it
}
