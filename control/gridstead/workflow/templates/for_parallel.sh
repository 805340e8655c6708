%%{function}() {
%%{rounds}  local %%{variable}%%{items} rounds=() count=0 failed='' result=0
  %%{head}; do
    wait_for_rounds %%{at_once} # until fewer rounds run
    ((ended == 0)) || break
%%{next_round}    run_branch %%{call}
    rounds[count++]=$!
  done
  wait_for_rounds 1
  return "$((ended ? ended : result))"
}
