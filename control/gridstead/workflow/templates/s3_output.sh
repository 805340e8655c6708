
# --- Output ---
send_output() {
  rclone --config "$private/output" %%{action} "$storage/output" %%{remote}
}
