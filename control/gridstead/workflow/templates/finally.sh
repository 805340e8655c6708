  run_last %%{call} || code=$((code ? code : $?))
