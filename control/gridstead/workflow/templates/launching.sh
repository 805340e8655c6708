%%{function}() {
  launch %%{number} %%{launched}
}
