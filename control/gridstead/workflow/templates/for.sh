%%{function}() {
  local %%{variable}%%{items}%%{rounds}
  %%{head}; do
%%{next_round}    %%{call} || return
  done
}
