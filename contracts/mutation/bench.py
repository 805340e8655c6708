# SPDX-License-Identifier: Apache-2.0
"""Tests mutants in a copy of the contracts, with a compiler process that serves all of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from enum import Enum
from pathlib import Path

CONTRACTS = Path(__file__).resolve().parents[1]
MODULES = CONTRACTS / "node_modules"
# Dynamic test linking: the tests load the contracts' code from the build output, so a mutant is
# compiled without the tests. Few fuzz runs, because a test should not depend on chance to kill a
# mutant.
SETTINGS = {
    "FOUNDRY_OPTIMIZER": "false",
    "FOUNDRY_DYNAMIC_TEST_LINKING": "true",
    "FOUNDRY_DENY": "never",
    "FOUNDRY_FUZZ_RUNS": "64",
    "FOUNDRY_INVARIANT_RUNS": "16",
}
# The quick tests first, so that few mutants need the invariant campaigns.
SELECTIONS = (("--no-match-path", "test/invariant/*"), ("--match-path", "test/invariant/*"))
TIMEOUT_S = 300
WRAPPER = """#!/usr/bin/python3 -SE
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
    """The result of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    INVALID = "does not compile"


class Bench:
    """A copy of the contracts, on which mutants are tested one by one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("src", "test", "bin"):
            shutil.copytree(CONTRACTS / name, folder / name)
        shutil.copy(CONTRACTS / "foundry.toml", folder)
        (folder / "node_modules").symlink_to(MODULES)
        self._forge = next(MODULES.glob("@foundry-rs/forge-*/bin/forge"))
        version = subprocess.run(
            [folder / "bin/solc", "--version"], capture_output=True, text=True, check=True
        ).stdout
        address = str(folder / "compiler")
        (folder / "bin/solc").write_text(WRAPPER.format(version=version.strip(), address=address))
        server = [Path(__file__).with_name("compiler.js"), MODULES / "solc", address]
        self._compiler = subprocess.Popen(["node", *server], stdin=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not Path(address).exists():
            if time.monotonic() > deadline:
                raise TimeoutError("could not start the compiler")
            time.sleep(0.05)

    def close(self) -> None:
        """Stop the compiler."""
        self._compiler.terminate()
        self._compiler.wait()

    def run(self) -> tuple[MutantResult, str]:
        """Build and test the copy; return the result and the output of forge."""
        for selection in SELECTIONS:
            result, output = self._run(*selection)
            if result is not MutantResult.SURVIVED:
                break
        return result, output

    def _run(self, *selection: str) -> tuple[MutantResult, str]:
        try:
            done = subprocess.run(
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
        output = done.stdout + done.stderr
        if done.returncode == 0:
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
