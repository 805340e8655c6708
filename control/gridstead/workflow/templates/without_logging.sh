# --- Output: without logging, because this provider cannot pass secrets outside the script ---
echo "gridstead: this provider cannot send output to the logger; logging is off"

