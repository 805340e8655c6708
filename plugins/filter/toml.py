# SPDX-License-Identifier: Apache-2.0
"""Filter ``to_toml``: a dictionary as a TOML document.

Example: ``{{ {'a': 1, 'b': {'c': ['x']}} | gridstead.site.to_toml }}`` is ``a = 1``, an empty line,
``[b]``, ``c = ["x"]``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from ansible.errors import AnsibleFilterError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(document: Mapping[str, object]) -> str:
    """Return a TOML document with sorted keys. Null values are left out.

    Raises:
        AnsibleFilterError: If a key is not a string, if a value has a type that TOML does not have,
            or if a list contains a table.
    """
    return "\n".join(_table_lines(document, ())) + "\n"


def _table_lines(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[str]:
    plain_values: dict[str, object] = {}
    tables: dict[str, Mapping[str, object]] = {}
    for key, value in table.items():
        if not isinstance(key, str):
            raise AnsibleFilterError(
                f"to_toml cannot write the key {key!r}: a key must be a string"
            )
        if isinstance(value, Mapping):
            tables[key] = value
        elif value is not None:
            plain_values[key] = value
    if path:
        yield ""
        yield f"[{'.'.join(map(_key_text, path))}]"
    for key in sorted(plain_values):
        yield f"{_key_text(key)} = {_value_text(plain_values[key])}"
    for key in sorted(tables):
        yield from _table_lines(tables[key], (*path, key))


def _key_text(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    """Return a TOML basic string.

    TOML has the escapes of JSON, except surrogate pairs. Therefore, non-ASCII characters are not
    escaped. In addition, TOML requires an escape for the character DEL.
    """
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value_text, value)) + "]"
    raise AnsibleFilterError(
        f"to_toml cannot write a value of type {type(value).__name__}: {value!r}"
    )


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"to_toml": to_toml}
