
# Starts a step beside those that follow.
declare -A processes=() codes=() # of launched steps, by their numbers
launch() { # number, function
  beside "$2"
  processes[$1]=$!
}

# Waits for a launched step and returns its code, as often as it is asked. One that was skipped has not failed.
await() { # number
  local code=0
  if [[ -v processes[$1] ]]; then
    end_of "${processes[$1]}" || code=$?
    unset "processes[$1]"
    codes[$1]=$code
  fi
  return "${codes[$1]:-0}"
}

# Runs steps in order, then ends those launched among them; what fails by itself fails all. A signal that ended the steps
# is passed on instead of theirs.
settled() { # numbers with the signals that end them, functions
  local each number code signal signalled=" " result=0
  in_order "${@:2}" || result=$?
  {
    for each in $1; do
      number=${each%:*} signal=${each#*:}
      if ((!ended && signal)) && [[ -v processes[$number] ]] && kill -0 "${processes[$number]}"; then
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
  } 2>/dev/null # bash tells here of those that it ends, with their source
  return "$result"
}
