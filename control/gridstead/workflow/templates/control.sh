
# Runs steps one after the other until one fails or the job is to end.
in_order() { # functions
  local each
  for each in "$@"; do
    ((ended == 0)) || return "$ended"
    "$each" || return
  done
  return "$ended"
}
