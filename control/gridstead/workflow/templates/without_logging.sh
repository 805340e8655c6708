# --- Output: this provider cannot pass secrets beside the script, so nothing is sent to the logger. ---
echo "gridstead: this provider cannot send output to the logger; logging is off"

