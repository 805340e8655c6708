
# --- Output, also after a failed step ---
set +e
signal_tree TERM "$sending"
wait "$sending" 2>/dev/null
echo "gridstead: sending the output"
send_output%%{link} || code=$((code ? code : $?))
(exit "$code")
