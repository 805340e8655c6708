
# Starts a step in the background.
declare -A processes=() codes=() # of launched steps, by their numbers
launch() { # number, function
  run_branch "$2"
  processes[$1]=$!
}

# Waits for a launched step and returns its code, on every call. A skipped step has not failed.
await() { # number
  local code=0
  if [[ -v processes[$1] ]]; then
    wait_for_process "${processes[$1]}" || code=$?
    unset "processes[$1]"
    codes[$1]=$code
  fi
  return "${codes[$1]:-0}"
}

# Runs steps in order, then ends the launched steps among them. A launched step that fails by itself
# fails the list. If a signal ended the steps, it is forwarded to the launched steps instead of
# their own signals.
in_order_with_launches() { # numbers with the signals that end them, functions
  local each number code signal signalled=" " result=0
  in_order "${@:2}" || result=$?
  {
    for each in $1; do
      number=${each%:*} signal=${each#*:}
      if ((!ended && signal)) && [[ -v processes[$number] ]] &&
        kill -0 "${processes[$number]}"; then
        signal_branch "$signal" "${processes[$number]}"
        signalled+="$number "
      fi
    done
    for each in $1; do
      number=${each%:*} code=0
      await "$number" || code=$?
      if [[ $signalled != *" $number "* ]]; then result=$((result ? result : code)); fi
      unset "codes[$number]"
    done
  } 2>/dev/null # bash prints the source of processes that a signal ended
  return "$result"
}
