
# Runs a step if its condition holds.
when() { # condition, step
  local code=0
  "$1" || code=$?
  case $code in
  10) "$2" ;;
  11) ;;
  *)
    ((ended)) || echo "gridstead: could not evaluate the condition of ${1%_if}" >&2
    return "$((code ? code : 2))"
    ;;
  esac
}
