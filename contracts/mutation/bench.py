# SPDX-License-Identifier: Apache-2.0
"""A place to try mutants: a copy of the contracts with a compiler that stays up, and its own
output.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from enum import Enum
from pathlib import Path

CONTRACTS = Path(__file__).resolve().parents[1]
MODULES = CONTRACTS / "node_modules"
# Tests take the contracts' code from where it was built, so a mutant compiles without them; what is
# random is tried a few times, because a mistake that few cases meet is for the tests to aim at.
SETTINGS = {
    "FOUNDRY_OPTIMIZER": "false",
    "FOUNDRY_DYNAMIC_TEST_LINKING": "true",
    "FOUNDRY_DENY": "never",
    "FOUNDRY_FUZZ_RUNS": "64",
    "FOUNDRY_INVARIANT_RUNS": "16",
}
# The quick tests first: few mutants reach the random sequences.
SELECTIONS = (("--no-match-path", "test/invariant/*"), ("--match-path", "test/invariant/*"))
TIMEOUT_S = 300
FRONT = """#!/usr/bin/python3 -SE
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


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    INVALID = "does not compile"


class Bench:
    """One copy; mutants are tried on it one after the other."""

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
        (folder / "bin/solc").write_text(FRONT.format(version=version.strip(), address=address))
        server = [Path(__file__).with_name("compiler.js"), MODULES / "solc", address]
        self._compiler = subprocess.Popen(["node", *server], stdin=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not Path(address).exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the compiler does not start")
            time.sleep(0.05)

    def close(self) -> None:
        """End the compiler."""
        self._compiler.terminate()
        self._compiler.wait()

    def run(self) -> tuple[Verdict, str]:
        """Build and test what is there; return the verdict and forge's words."""
        for selection in SELECTIONS:
            verdict, words = self._run(*selection)
            if verdict is not Verdict.SURVIVED:
                break
        return verdict, words

    def _run(self, *selection: str) -> tuple[Verdict, str]:
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
            return Verdict.KILLED, "no end"
        words = done.stdout + done.stderr
        if done.returncode == 0:
            return Verdict.SURVIVED, words
        return (Verdict.INVALID if "Compiler run failed" in words else Verdict.KILLED), words

    def try_mutant(self, file: str, text: str) -> Verdict:
        """Put a text in a file's place, run, and put the file back."""
        path = self._folder / file
        original = path.read_text()
        path.write_text(text)
        try:
            return self.run()[0]
        finally:
            path.write_text(original)
