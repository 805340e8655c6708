
# Runs a step if its condition is true.
run_if() { # step number for messages, condition, step
  local code=0
  "$2" || code=$?
  case $code in
  10) "$3" ;;
  11) ;;
  *)
    ((ended)) || echo "gridstead: could not evaluate the condition of step $1" >&2
    return "$((code ? code : 2))"
    ;;
  esac
}
