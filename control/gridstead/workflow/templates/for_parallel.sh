%%{function}() {
  local %%{variable}%%{items}%%{rounds} iterations=()
  %%{head}; do
%%{next_round}    run_branch %%{call}
    iterations+=("$!")
  done
  wait_for_all "${iterations[@]}"
}
