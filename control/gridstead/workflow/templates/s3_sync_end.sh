signal_tree TERM "$sending"
wait "$sending" 2>/dev/null
