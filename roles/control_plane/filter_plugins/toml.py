# SPDX-License-Identifier: Apache-2.0
"""Filter ``to_toml``: a dictionary as a TOML document.

Example: ``{{ {'a': 1, 'b': {'c': ['x']}} | to_toml }}`` is ``a = 1``, an empty line, ``[b]``, ``c = ["x"]``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from ansible.errors import AnsibleFilterError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(document: Mapping[str, object]) -> str:
    """Return a TOML document: plain values first, tables after them, keys sorted; a null value is
    left out.

    Raises:
        AnsibleFilterError: If a name is no text, or a value is none that TOML knows, or a table in
            a list.
    """
    return "\n".join(_table(document, ())) + "\n"


def _table(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[str]:
    unnamed = [k for k in table if not isinstance(k, str)]
    if unnamed:
        raise AnsibleFilterError(f"to_toml cannot write {unnamed[0]!r} as a name: names are text")
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping) and v is not None}
    if path:
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
    for key in sorted(plain):
        yield f"{_key(key)} = {_value(plain[key])}"
    for key in sorted(k for k, v in table.items() if isinstance(v, Mapping)):
        yield from _table(table[key], (*path, key))  # type: ignore[arg-type]  # it is a Mapping: the line above


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    """Return a basic string: JSON's escapes are TOML's, but pairs of surrogates are not, and DEL
    must be escaped.
    """
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise AnsibleFilterError(f"to_toml cannot write a {type(value).__name__}: {value!r}")


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"to_toml": to_toml}
