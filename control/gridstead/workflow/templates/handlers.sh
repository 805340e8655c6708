
# Runs steps that come last, even when the job is to end. A signal that comes meanwhile ends them and the job.
error=() # the code of the last step with handlers, as a variable for steps
at_last() { # command
  local outer=$ended code=0
  ended=0
  "$@" || code=$?
  ended=$((outer ? outer : ended))
  return "$code"
}
