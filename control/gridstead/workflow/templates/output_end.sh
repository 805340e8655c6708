
# --- The output is sent after a failure too ---
set +e
%%{before}send_output%%{link} || code=$((code ? code : $?))
(exit "$code")
