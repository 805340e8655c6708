%%{function}() {
  local %%{variable}%%{items} iterations=()
  %%{head}; do
    run_branch %%{call}
    iterations+=("$!")
  done
  wait_for_all "${iterations[@]}"
}
