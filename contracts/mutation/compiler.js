// SPDX-License-Identifier: Apache-2.0
// Compiles the sources that it receives over a socket, one request per connection, so that the
// compiler starts once for many mutants.
// Usage: node compiler.js SOLC SOCKET. It exits when its standard input is closed, that is, at the
// latest when the process that started it exits.
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
