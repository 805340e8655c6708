%%{function}() {
  %%{call}
}
