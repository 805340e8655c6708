keep_sending() {
  while sleep %%{interval}; do
    send_output || echo "gridstead: could not send the output; retrying" >&2
  done
}
keep_sending &
sending=$!
