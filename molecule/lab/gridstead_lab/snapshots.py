# SPDX-License-Identifier: Apache-2.0
"""What a host is at a moment, as molecule/single/snapshot.py sees it, and how two moments differ."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Snapshot = Mapping[str, Mapping[str, str]]  # kind -> name -> what is compared of it
LOOK = Path(__file__).resolve().parents[2] / "single" / "snapshot.py"


def take(ssh_config: str, host: str) -> Snapshot:
    """Return what a host is now."""
    ssh = ["ssh", "-F", ssh_config, host, "python3", "-"]
    seen = subprocess.run(ssh, input=LOOK.read_text(), capture_output=True, text=True, check=True)
    return json.loads(seen.stdout)


def undeclared(
    before: Snapshot, after: Snapshot, declared: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return a line for each thing that is different and that no pattern of what is declared
    matches.

    Args:
        before: The host at the one moment.
        after: The host at the other.
        declared: Each with ``seen``: patterns of names by kind, as in
            molecule/single/nothing_left/declared.yml.
    """
    seen = [one["seen"] for one in declared]
    return [
        f"{kind} {name}: {was} -> {now}"
        for kind, name, was, now in _differences(before, after)
        if not any(
            re.fullmatch(pattern, name) for patterns in seen for pattern in patterns.get(kind, ())
        )
    ]


def _differences(
    before: Snapshot, after: Snapshot
) -> Iterator[tuple[str, str, str | None, str | None]]:
    for kind, was in before.items():
        for name in sorted(was.keys() | after[kind].keys()):
            if was.get(name) != after[kind].get(name):
                yield kind, name, was.get(name), after[kind].get(name)
