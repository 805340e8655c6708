
# Runs steps one after the other until a step fails or a signal has arrived.
in_order() { # functions
  local each
  for each in "$@"; do
    ((ended == 0)) || return "$ended"
    "$each" || return
  done
  return "$ended"
}

# The paths of the marks of this shell's branch and of outer branches, each after a newline.
gridstead_marks=''

# Returns whether this shell is marked to end. The sender of a signal writes the mark, and then
# searches for processes. A process that starts after the search receives no signal, but finds the
# mark.
is_marked() {
  local gridstead_remaining=$gridstead_marks
  while [[ $gridstead_remaining ]]; do
    if [[ -e ${gridstead_remaining##*$'\n'} ]]; then return 0; fi
    gridstead_remaining=${gridstead_remaining%$'\n'*}
  done
  return 1
}

# The script of a shell that executes its arguments unless it is marked to end. This must be another
# shell: one that has handled signals may lose a pending signal when it executes a program.
unless_marked="$(declare -f is_marked); gridstead_marks=\$0; ! is_marked || exit 143; exec \"\$@\""
