keep_sending() {
  while sleep %%{interval}; do
    send_output || echo "gridstead: could not send the output, will try again" >&2
  done
}
keep_sending &
sending=$!
