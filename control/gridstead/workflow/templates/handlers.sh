
# Runs steps that come last, even when the job is to end.
error=() # the code of the last step with handlers, as a variable for steps
at_last() { # command
  local ended=0
  "$@"
}
