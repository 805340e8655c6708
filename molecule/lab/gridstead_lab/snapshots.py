# SPDX-License-Identifier: Apache-2.0
"""Functions that take snapshots of a host with molecule/single/snapshot.py or compare snapshots."""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Snapshot = Mapping[str, Mapping[str, str]]  # the compared texts by kind and name
PROGRAM = Path(__file__).resolve().parents[2] / "single" / "snapshot.py"


def take(ssh_config: str, host: str) -> Snapshot:
    """Return a snapshot of a host."""
    ssh = ["ssh", "-F", ssh_config, host, "python3", "-"]
    result = subprocess.run(
        ssh, input=PROGRAM.read_text(), capture_output=True, text=True, check=True
    )
    return json.loads(result.stdout)


def unexpected_differences(
    before: Snapshot, after: Snapshot, allowed: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Compare two snapshots and return a line for each difference that is not allowed.

    Args:
        before: The first snapshot.
        after: The second snapshot.
        allowed: The allowed differences, as in molecule/single/nothing_left/declared.yml. The key
            ``seen`` of an entry contains patterns of names by kind.
    """
    patterns: dict[str, list[str]] = defaultdict(list)
    for allowed_difference in allowed:
        for kind, name_patterns in allowed_difference["seen"].items():
            patterns[kind] += name_patterns
    lines = []
    for kind, name, old, new in _differences(before, after):
        if not any(re.fullmatch(pattern, name) for pattern in patterns[kind]):
            lines.append(f"{kind} {name}: {old} -> {new}")
    return lines


def _differences(
    before: Snapshot, after: Snapshot
) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield kind, name, old text and new text of each difference."""
    for kind, old_texts in before.items():
        new_texts = after[kind]
        for name in sorted(old_texts.keys() | new_texts.keys()):
            old, new = old_texts.get(name), new_texts.get(name)
            if old != new:
                yield kind, name, old, new
