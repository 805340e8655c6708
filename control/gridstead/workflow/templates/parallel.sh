
# Waits until fewer than a number of rounds of a parallel loop run. A signal that arrives during the
# wait is sent to all of them. The variables belong to the function of the loop: rounds contains the
# processes of the running rounds by their positions in the loop, and result becomes the code of the
# round that failed at the lowest position, failed.
wait_for_rounds() { # number
  local each code has_ended
  while ((${#rounds[@]} >= $1)); do
    has_ended=''
    for each in "${!rounds[@]}"; do
      if kill -0 "${rounds[each]}"; then continue; fi
      has_ended=yes code=0
      # A signal that interrupts wait may make bash forget a process that has just ended. A wait for
      # this process would last until all processes have ended, so the script does not wait again.
      if ((!ended)); then
        wait "${rounds[each]}" || code=$?
        if ((code && (!result || each < failed))); then result=$code failed=$each; fi
        rm -f -- "$storage/.branch-${rounds[each]}-"*
      fi
      unset "rounds[each]"
    done
    # wait -n may miss a process that ended before another program, such as rm, ended. So all
    # processes are checked again until no other program runs between the check and the wait.
    if [[ $has_ended ]]; then continue; fi
    send_end_signal "${rounds[@]}"
    wait -n "${rounds[@]}" || : # returns when any of them ends, or at a signal
  done 2>/dev/null # bash prints the source of processes that a signal ended
}
