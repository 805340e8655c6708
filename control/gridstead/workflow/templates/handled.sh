%%{function}() {
  local code=0
  %%{body} || code=$?
  heard
  error=(DEEPSQUARE_ERROR_CODE="$code")
%%{catch}%%{finally_}  return "$code"
}
