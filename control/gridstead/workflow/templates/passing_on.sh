
# --- Signals: Slurm gives them to the first process of a task alone, which passes them on here ---
catch_signals() {
  local gridstead_each
  gridstead_child='' gridstead_early=''
  for gridstead_each in {1..8} {10..16} 18 {20..31}; do # not KILL and STOP, and not CHLD, its own
    # shellcheck disable=SC2064 # this one's number
    trap "pass_on $gridstead_each" "$gridstead_each"
  done
}

pass_on() { # signal
  if [[ $gridstead_child ]]; then kill -s "$1" "$gridstead_child" 2>/dev/null; else gridstead_early=$1; fi
}

# Runs words after catch_signals; what comes after them is not ended by a signal.
run_passing_on() { # words
  local gridstead_code
  env --default-signal=INT,QUIT -- "$@" <&0 & # which bash takes away from what runs beside it
  gridstead_child=$!
  if [[ $gridstead_early ]]; then pass_on "$gridstead_early"; fi
  while true; do
    gridstead_code=0
    wait "$gridstead_child" 2>/dev/null || gridstead_code=$?
    if ((gridstead_code <= 128)) || ! kill -0 "$gridstead_child" 2>/dev/null; then break; fi
  done
  gridstead_code=0 # that of the words, for the one above can be a signal's that came as they ended
  wait "$gridstead_child" 2>/dev/null || gridstead_code=$?
  trap '' HUP INT QUIT TERM
  return "$gridstead_code"
}
