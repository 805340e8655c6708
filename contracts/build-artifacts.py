#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile the contracts and write their artifacts into the Python package, or check them.

Rule 1: an artifact depends only on the sources, the compiler version and foundry.toml, so equal
sources give equal files.
Rule 2: only this script needs node and a compiler. The Python package needs neither.
Rule 3: the folders of earlier releases, such as 2.0.0, contain copies of their artifacts, which
never change. This script does not read them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

CONTRACTS = Path(__file__).resolve().parent
ARTIFACTS = CONTRACTS.parent / "control" / "gridstead" / "abi"
# The settings that the bytecode depends on. The rest of foundry.toml is for tests and style.
SETTINGS = ("evm_version", "optimizer", "optimizer_runs", "bytecode_hash", "cbor_metadata")
NAMES = (
    "Constants",
    "Credit",
    "JobRepository",
    "MetaScheduler",
    "ProviderJobQueues",
    "ProviderManager",
)
# A contract that is only for development chains. It has no part in the hash of the grid's sources.
DEVNET_NAME = "Multicall"


def find_forge() -> str:
    """Return the path of forge: the one that npm installed, else the one in the PATH."""
    installed_by_npm = sorted(CONTRACTS.glob("node_modules/@foundry-rs/forge-*/bin/forge"))
    forge = str(installed_by_npm[0]) if installed_by_npm else shutil.which("forge")
    if forge is None:
        sys.exit("contracts: forge is not installed (run `npm ci` in contracts/)")
    return forge


def hash_sources(folder: str = "src") -> str:
    """Return the SHA-256 of the settings, the compiler version and a folder's sources, in hex."""
    digest = hashlib.sha256()
    compiler = json.loads((CONTRACTS / "package.json").read_text())["devDependencies"]["solc"]
    profile = tomllib.loads((CONTRACTS / "foundry.toml").read_text())["profile"]["default"]
    settings = {"solc": compiler, **{key: profile[key] for key in SETTINGS}}
    digest.update(json.dumps(settings, sort_keys=True).encode() + b"\0")
    for path in sorted((CONTRACTS / folder).rglob("*.sol")):
        digest.update(f"{path.relative_to(CONTRACTS)}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def to_text(
    name: str, source_hash: str, forge_output: dict[str, object], code: str = "bytecode"
) -> str:
    """Return one artifact as JSON, with a line per entry of the ABI, for readable diffs.

    ``code`` is the key of the code: "bytecode" creates the contract, "deployedBytecode" is the code
    of the created contract.
    """
    abi = ",\n".join("  " + json.dumps(entry) for entry in forge_output["abi"])
    bytecode = forge_output[code]
    links = json.dumps(bytecode["linkReferences"])
    return (
        f'{{\n "name": "{name}",\n "source_hash": "{source_hash}",\n "abi": [\n{abi}\n ],\n'
        f' "link_references": {links},\n "{code}": "{bytecode["object"]}"\n}}\n'
    )


def read_output(name: str) -> dict[str, object]:
    """Return what forge has compiled for a contract."""
    return json.loads((CONTRACTS / "out" / f"{name}.sol" / f"{name}.json").read_text())


def build() -> dict[Path, str]:
    """Compile the contracts, and return the text of each artifact by its path."""
    subprocess.run([find_forge(), "build", "--quiet", "src", "devnet"], cwd=CONTRACTS, check=True)
    source_hash = hash_sources()
    texts = {}
    for name in NAMES:
        texts[ARTIFACTS / f"{name}.json"] = to_text(name, source_hash, read_output(name))
    forge_output = read_output(DEVNET_NAME)
    text = to_text(DEVNET_NAME, hash_sources("devnet"), forge_output, "deployedBytecode")
    texts[ARTIFACTS / f"{DEVNET_NAME}.json"] = text
    return texts


def main() -> int:
    """Write the artifacts, or with --check print those that differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 if an artifact differs"
    )
    check = parser.parse_args().check

    texts = build()
    if not check:
        for path, text in texts.items():
            path.write_text(text)
        return 0
    is_stale = False
    for path, text in texts.items():
        if path.exists() and path.read_text() == text:
            continue
        is_stale = True
        print(f"contracts: {path.name} differs from the sources (run contracts/build-artifacts.py)")
    return int(is_stale)


if __name__ == "__main__":
    sys.exit(main())
