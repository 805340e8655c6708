
# Runs steps one after the other until one fails or the job is to end.
in_order() { # functions
  local each
  for each in "$@"; do
    ((ended == 0)) || return "$ended"
    "$each" || return
  done
  return "$ended"
}

# Whether somebody ends what runs here. Who does makes its mark before he looks for processes: what begins after that
# look, and would never hear of the signal, finds the mark.
gridstead_marks='' # paths, a line before each: of the branches that this shell is in
is_marked() {
  local gridstead_left=$gridstead_marks
  while [[ $gridstead_left ]]; do
    if [[ -e ${gridstead_left##*$'\n'} ]]; then return 0; fi
    gridstead_left=${gridstead_left%$'\n'*}
  done
  return 1
}

# Goes before words that are not to begin then. A shell of its own: one that has handled signals may hold one and lose it
# when it becomes another program.
unless_marked="$(declare -f is_marked); gridstead_marks=\$0; ! is_marked || exit 143; exec \"\$@\""
