%%{function}() {
  local %%{variable}%%{items} rounds=()
  %%{head}; do
    (
      begin_branch
      %%{call}
    ) &
    rounds+=("$!")
  done
  all_of "${rounds[@]}"
}
