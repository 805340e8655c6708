%%{function}() {
  local code=0%%{earlier}
  %%{body} || code=$?
  check_for_end
  error=(DEEPSQUARE_ERROR_CODE="$code")
%%{catch}%%{finally_}  return "$code"
}
