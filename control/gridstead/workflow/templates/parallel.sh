
# Waits for processes; the code is that of the first, in their order, that failed.
all_of() { # processes
  local each code result=0
  for each in "$@"; do
    code=0
    end_of "$each" || code=$?
    result=$((result ? result : code))
  done
  return "$result"
}
