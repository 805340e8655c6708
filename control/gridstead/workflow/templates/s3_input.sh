
# --- Input ---
echo "gridstead: fetching the input"
rclone --config "$private/input" copy %%{remote} "$storage/input"
