
# Runs steps one after the other until a step fails or a signal has arrived.
in_order() { # functions
  local each
  for each in "$@"; do
    ((ended == 0)) || return "$ended"
    "$each" || return
  done
  return "$ended"
}

# Returns whether somebody ends this shell. The sender writes the mark before it looks for
# processes. A process that starts after that look does not receive the signal, and finds the mark.
# The paths of the marks of this shell's branch and of outer branches, each after a newline.
gridstead_marks=''
is_marked() {
  local gridstead_left=$gridstead_marks
  while [[ $gridstead_left ]]; do
    if [[ -e ${gridstead_left##*$'\n'} ]]; then return 0; fi
    gridstead_left=${gridstead_left%$'\n'*}
  done
  return 1
}

# Goes before words that must not start after a mark. It needs a separate shell: a shell that has
# handled signals may lose a pending signal when it executes another program.
unless_marked="$(declare -f is_marked); gridstead_marks=\$0; ! is_marked || exit 143; exec \"\$@\""
