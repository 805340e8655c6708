%%{end_marker}  exec >/dev/null 2>&1 8>&- # the writer reads the end of its input, sends the rest and exits
  wait "$writer"
