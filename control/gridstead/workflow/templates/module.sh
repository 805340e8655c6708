
# Runs the steps of a module. They receive the module's inputs, which replace variables of enclosing
# steps, and a separate file for DEEPSQUARE_ENV. Later steps receive from that file the outputs of
# the module with a prefix, or all variables if there is no prefix.
env_file=$storage/env
module_variables=("@$env_file") # variables, and files of variables with an @ before their names
in_module() { # function, prefix, outputs, inputs
  local outer=$env_file code=0 line lines=()
  local env_file
  env_file=$(mktemp -- "$storage/env.XXXXXX") || return
  local module_variables=(
    "${module_variables[@]}" "${@:4}" "DEEPSQUARE_ENV=$env_file" "@$env_file"
  )
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
