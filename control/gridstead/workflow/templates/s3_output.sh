
# --- Output ---
action=%%{action}
send_output() {
  in_store "$private/output" "$action" "$storage/output" %%{remote}
}
