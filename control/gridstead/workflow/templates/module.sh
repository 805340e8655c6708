
# Runs the steps of a module. They are given its inputs, over what steps around it are given, and a file of their own for
# DEEPSQUARE_ENV. What they leave there goes to the steps after the module: its outputs, with the beginning that their
# names are to have, or all if there is none.
env_file=$storage/env
given=("@$env_file") # variables, and files of such with an @ before their names
in_module() { # function, beginning, outputs, inputs
  local outer=$env_file code=0 line lines=()
  local env_file
  env_file=$(mktemp -- "$storage/env.XXXXXX") || return
  local given=("${given[@]}" "${@:4}" "DEEPSQUARE_ENV=$env_file" "@$env_file")
  "$1" || code=$?
  if [[ -f $env_file ]]; then mapfile -t lines <"$env_file"; fi
  for line in "${lines[@]}"; do
    if [[ -z $2 ]]; then
      printf '%s\n' "$line" >>"$outer"
    elif [[ " $3 " == *" ${line/=*/} "* ]]; then
      printf '%s_%s\n' "$2" "$line" >>"$outer"
    fi
  done
  return "$code"
}
