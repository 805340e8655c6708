%%{function}() {
  local %%{variable}%%{items}
  %%{head}; do
    %%{call} || return
  done
}
