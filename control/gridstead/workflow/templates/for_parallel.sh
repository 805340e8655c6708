%%{function}() {
  local %%{variable}%%{items} rounds=()
  %%{head}; do
    beside %%{call}
    rounds+=("$!")
  done
  all_of "${rounds[@]}"
}
