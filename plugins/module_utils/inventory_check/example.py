# SPDX-License-Identifier: Apache-2.0
"""Finds values of inventory/example that an inventory still contains.

No real site has them, so a run would fail halfway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .diagnostic import Diagnostic
from .inventory import LATE, Host, Inventory

# Names and addresses that are reserved for examples (RFC 2606, RFC 5737), and contracts and
# checksums that consist of one repeated digit.
_PLACEHOLDER = re.compile(
    r"(?<![\w-])example\.(?:com|net|org)\b|\.example(?![\w.-])"
    r"|\b(?:192\.0\.2|198\.51\.100|203\.0\.113)\.\d{1,3}\b"
    r"|(?<![0-9a-f])(?:0x)?([0-9a-f])\1{39,}(?![0-9a-f])"
)


def values(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find all values of the example; one diagnostic lists them."""
    placeholders: dict[str, str] = {}
    for host in inventory.hosts.values():
        for where, text in _host_texts(host):
            if _PLACEHOLDER.search(text):
                placeholders.setdefault(where, f"{where} ({text})")
    if placeholders:
        yield Diagnostic(
            where="the inventory",
            seen=f"still the example's: {', '.join(placeholders.values())}",
            allowed="values of your site",
        )


def _host_texts(host: Host) -> Iterator[tuple[str, str]]:
    for name, value in host.variables.items():
        if name not in LATE:
            where = f"{host.name} {name}" if name == "ansible_host" else name
            yield from _texts(where, value)


def _texts(where: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(f"{where}.{key}", item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(where, item)
