# SPDX-License-Identifier: Apache-2.0
"""Values that an inventory has from inventory/example, and that are nobody's: a run would stop at
them halfway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from inventory_check.problem import Problem
from inventory_check.site import LATE, Site

# Names and addresses that are kept free for examples (RFC 2606, RFC 5737); one digit for a whole
# contract or checksum.
_NOBODYS = re.compile(
    r"(?<![\w-])example\.(?:com|net|org)\b|\.example(?![\w.-])"
    r"|\b(?:192\.0\.2|198\.51\.100|203\.0\.113)\.\d{1,3}\b"
    r"|(?<![0-9a-f])(?:0x)?([0-9a-f])\1{39,}(?![0-9a-f])"
)


def values(site: Site) -> Iterator[Problem]:
    """Find what is still the example's, all of it in one message."""
    found = dict[str, str]()
    for host in site.hosts.values():
        for name, value in host.variables.items():
            for where, text in _texts(name, value) if name not in LATE else ():
                if _NOBODYS.search(text):
                    found.setdefault(
                        f"{host.name} {where}" if name == "ansible_host" else where, text
                    )
    if found:
        told = ", ".join(f"{where} ({text})" for where, text in found.items())
        yield Problem(
            where="the inventory",
            found=f"still the example's: {told}",
            allowed="what your site has",
        )


def _texts(where: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _texts(f"{where}.{key}", one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(where, one)
