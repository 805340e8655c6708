# SPDX-License-Identifier: Apache-2.0
"""Test mutants. A mutant is a copy of the contracts with one small change.

One compiler process serves all mutants of a bench.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from enum import Enum
from pathlib import Path

CONTRACTS = Path(__file__).resolve().parents[1]
NODE_MODULES = CONTRACTS / "node_modules"
COPIED_FOLDERS = ("src", "devnet", "test", "bin")
# With dynamic test linking, the tests load the contracts' code from the build output. Forge can
# therefore compile a mutant without the tests. The number of fuzz runs is small, because a mutant
# should be detected by a test of the changed behaviour, and not by a lucky random input.
SETTINGS = {
    "FOUNDRY_OPTIMIZER": "false",
    "FOUNDRY_DYNAMIC_TEST_LINKING": "true",
    "FOUNDRY_DENY": "never",
    "FOUNDRY_FUZZ_RUNS": "64",
    "FOUNDRY_INVARIANT_RUNS": "16",
}
# The quick tests run first and detect most mutants, so few mutants need the slow invariant tests.
TEST_SELECTIONS = (("--no-match-path", "test/invariant/*"), ("--match-path", "test/invariant/*"))
TIMEOUT_S = 300
# The replacement of bin/solc in the copy. It sends the input of forge to the compiler process.
SOLC_CLIENT = """#!/usr/bin/python3 -SE
import socket, sys
if "--version" in sys.argv:
    print({version!r})
else:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect({address!r})
        peer.sendall(sys.stdin.buffer.read())
        peer.shutdown(socket.SHUT_WR)
        while part := peer.recv(1 << 20):
            sys.stdout.buffer.write(part)
"""


class MutantResult(Enum):
    """The result of a mutant. A mutant is killed if a test fails."""

    KILLED = "killed"
    SURVIVED = "survived"
    INVALID = "does not compile"


class Bench:
    """A copy of the contracts, on which mutants are tested one by one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in COPIED_FOLDERS:
            shutil.copytree(CONTRACTS / name, folder / name)
        shutil.copy(CONTRACTS / "foundry.toml", folder)
        (folder / "node_modules").symlink_to(NODE_MODULES)
        self._forge = next(NODE_MODULES.glob("@foundry-rs/forge-*/bin/forge"))
        version = subprocess.run(
            [folder / "bin/solc", "--version"], capture_output=True, text=True, check=True
        ).stdout
        socket_path = str(folder / "compiler")
        (folder / "bin/solc").write_text(
            SOLC_CLIENT.format(version=version.strip(), address=socket_path)
        )
        compiler_command = [
            "node",
            Path(__file__).with_name("compiler.js"),
            NODE_MODULES / "solc",
            socket_path,
        ]
        self._compiler = subprocess.Popen(compiler_command, stdin=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not Path(socket_path).exists():
            if time.monotonic() > deadline:
                raise TimeoutError("could not start the compiler")
            time.sleep(0.05)

    def close(self) -> None:
        """Stop the compiler."""
        self._compiler.terminate()
        self._compiler.wait()

    def run(self) -> tuple[MutantResult, str]:
        """Build and test the copy. Return the result and the output of forge.

        The result is SURVIVED if all tests pass.
        """
        for selection in TEST_SELECTIONS:
            result, output = self._run(*selection)
            if result is not MutantResult.SURVIVED:
                break
        return result, output

    def _run(self, *selection: str) -> tuple[MutantResult, str]:
        try:
            result = subprocess.run(
                [self._forge, "test", "--fail-fast", "--threads", "1", *selection],
                cwd=self._folder,
                env={**os.environ, **SETTINGS},
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return MutantResult.KILLED, f"no result after {TIMEOUT_S} s"
        output = result.stdout + result.stderr
        if result.returncode == 0:
            return MutantResult.SURVIVED, output
        if "Compiler run failed" in output:
            return MutantResult.INVALID, output
        return MutantResult.KILLED, output

    def try_mutant(self, file: str, text: str) -> MutantResult:
        """Replace a file's text, run the tests, and restore the file."""
        path = self._folder / file
        original = path.read_text()
        path.write_text(text)
        try:
            return self.run()[0]
        finally:
            path.write_text(original)
