  if ((code && !ended)); then
    code=0
    %%{call} || code=$?
  fi
