%%{function}() {
%%{waits}  %%{inner}
}
