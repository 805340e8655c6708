%%{function}() {
%%{rounds}  local %%{variable}%%{items} iterations=()
  %%{head}; do
%%{next_round}    run_branch %%{call}
    iterations+=("$!")
  done
  wait_for_all "${iterations[@]}"
}
