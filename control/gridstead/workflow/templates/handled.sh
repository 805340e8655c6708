%%{function}() {
  local code=0
  %%{body} || code=$?
  error=(DEEPSQUARE_ERROR_CODE="$code")
%%{catch}%%{finally_}  return "$code"
}
