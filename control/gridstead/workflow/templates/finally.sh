  at_last %%{call} || code=$((code ? code : $?))
