# SPDX-License-Identifier: Apache-2.0
"""Finds placeholders of inventory/example that an inventory still contains.

No real site has these values. Without this check, a playbook run would fail halfway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .diagnostic import Diagnostic
from .inventory import RUNTIME_VARIABLES, Host, Inventory

# Names and addresses that RFC 2606 and RFC 5737 reserve for examples, and contract addresses and
# checksums that repeat a single digit.
_PLACEHOLDER = re.compile(
    r"(?<![\w-])example\.(?:com|net|org)\b|\.example(?![\w.-])"
    r"|\b(?:192\.0\.2|198\.51\.100|203\.0\.113)\.\d{1,3}\b"
    r"|(?<![0-9a-f])(?:0x)?([0-9a-f])\1{39,}(?![0-9a-f])"
)


def check_placeholders(inventory: Inventory) -> Iterator[Diagnostic]:
    """Yield one diagnostic that lists all placeholders. Yield nothing if there are none."""
    texts_by_location: dict[str, str] = {}
    for host in inventory.hosts.values():
        for where, text in _host_texts(host):
            if _PLACEHOLDER.search(text):
                texts_by_location.setdefault(where, f"{where} ({text})")
    if texts_by_location:
        text_list = ", ".join(texts_by_location.values())
        yield Diagnostic(
            where="the inventory",
            fault=f"these values are still from the example: {text_list}",
            allowed="values of your site",
        )


def _host_texts(host: Host) -> Iterator[tuple[str, str]]:
    for name, value in host.variables.items():
        if name not in RUNTIME_VARIABLES:
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
