%%{function}() {
%%{rounds}  local %%{variable}%%{items}
  %%{head}; do
%%{next_round}    %%{call} || return
  done
}
