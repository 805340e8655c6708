
# Runs a step if its condition is true.
run_if() { # step number for messages, condition, step%%{run_if_arguments}
  local code=0
  "$2" || code=$?
  case $code in
  10) "$3" ;;
  11)%%{skip} ;;
  *)
    ((ended)) || echo "gridstead: could not evaluate the condition of step $1" >&2
%%{failed}    return "$((code ? code : 2))"
    ;;
  esac
}
