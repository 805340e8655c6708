// SPDX-License-Identifier: Apache-2.0
// Compiles what it is sent over a socket, one request a connection, so that the compiler starts once for many mutants.
// Usage: node compiler.js SOLC SOCKET; it ends with its standard input, so with whoever started it.
const net = require("node:net");
const [, , solcPath, socketPath] = process.argv;
const solc = require(solcPath);

net
  .createServer({ allowHalfOpen: true }, (connection) => {
    const parts = [];
    connection.on("data", (part) => parts.push(part));
    connection.on("end", () => connection.end(solc.compile(Buffer.concat(parts).toString())));
  })
  .listen(socketPath);

process.stdin.on("end", () => process.exit()).resume();
