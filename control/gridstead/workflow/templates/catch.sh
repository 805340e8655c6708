  if ((code && !ended)); then
    code=0%%{forget}
    %%{call} || code=$?
  fi
