keep_sending() {
  while sleep %%{interval}; do send_output; done
}
keep_sending &
sending=$!
