// SPDX-License-Identifier: Apache-2.0
// Compiles the sources that it receives over a socket, with one request per connection. The
// compiler therefore starts only once for many mutants.
// Usage: node compiler.js SOLC SOCKET. The program exits when its standard input is closed. This
// happens at the latest when its parent process exits.
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
