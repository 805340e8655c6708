# SPDX-License-Identifier: Apache-2.0
"""Take snapshots of a host with molecule/single/snapshot.py, and compare two of them."""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Snapshot = Mapping[str, Mapping[str, str]]  # kind -> name -> the text that is compared
PROGRAM = Path(__file__).resolve().parents[2] / "single" / "snapshot.py"


def take(ssh_config: str, host: str) -> Snapshot:
    """Return a snapshot of a host."""
    ssh = ["ssh", "-F", ssh_config, host, "python3", "-"]
    done = subprocess.run(
        ssh, input=PROGRAM.read_text(), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def undeclared(
    before: Snapshot, after: Snapshot, declared: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return a line for each difference that is not declared.

    Args:
        before: The first snapshot.
        after: The second snapshot.
        declared: Entries as in molecule/single/nothing_left/declared.yml. The key ``seen`` of an
            entry has patterns of names by kind.
    """
    patterns: dict[str, list[str]] = defaultdict(list)
    for entry in declared:
        for kind, names in entry["seen"].items():
            patterns[kind] += names
    lines = []
    for kind, name, old, new in _differences(before, after):
        if not any(re.fullmatch(pattern, name) for pattern in patterns[kind]):
            lines.append(f"{kind} {name}: {old} -> {new}")
    return lines


def _differences(
    before: Snapshot, after: Snapshot
) -> Iterator[tuple[str, str, str | None, str | None]]:
    for kind, items in before.items():
        for name in sorted(items.keys() | after[kind].keys()):
            old, new = items.get(name), after[kind].get(name)
            if old != new:
                yield kind, name, old, new
