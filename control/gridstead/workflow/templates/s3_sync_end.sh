signal_tree TERM "$sending"
# If a signal has interrupted a wait, bash may have forgotten that this process has ended.
if kill -0 "$sending" 2>/dev/null; then wait "$sending" 2>/dev/null; fi
