# SPDX-License-Identifier: Apache-2.0
"""Functions of templates that encode and decode texts, and that hash them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Mapping

import yaml

from gridstead.workflow.gotemplate.nodes import Map, Value
from gridstead.workflow.gotemplate.printing import check_size


class _QuotingDumper(yaml.CSafeDumper):
    """Quotes every text.

    PyYAML follows YAML 1.1, in which plain ``0E0`` is text, and writes this text without quotes. In
    YAML 1.2 plain ``0E0`` is a number, so the text would be read as a number.
    """


_QuotingDumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def _to_yaml(value: Value) -> str:
    if value in ((), [], {}, None):
        return ""
    return yaml.dump(
        _plain(value), Dumper=_QuotingDumper, sort_keys=False, allow_unicode=True, width=10**6
    ).rstrip("\n")


def _plain(value: Value) -> Value:
    """Return a copy of a value without nil fields in mappings. A nil field counts as absent."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _to_json(value: Value, indent: int | None = None) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, indent=indent)


def _json_number(text: str) -> float:
    # In Go, every number of a JSON text has a fraction.
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("contains a number that is too large")
    return value


def _from_json(text: str) -> Value:
    try:
        return json.loads(
            text, object_pairs_hook=Map, parse_int=_json_number, parse_float=_json_number,
            parse_constant=_json_number,
        )  # fmt: skip
    except RecursionError as err:
        raise ValueError("is nested too deep") from err


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as err:
        raise ValueError("does not decode to text") from err


def _encoder(encode: Callable[[bytes], bytes]) -> Callable[[str], str]:
    def encoded(text: str) -> str:
        check_size(2 * len(text))
        return encode(text.encode()).decode()

    return encoded


def _decode_base64(text: str) -> str:
    return _text_of(base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True))


ENCODINGS: dict[str, Callable[..., Value]] = {
    "toYaml": _to_yaml,
    "toJson": _to_json,
    "toRawJson": _to_json,
    "toPrettyJson": lambda value: _to_json(value, 2),
    "fromJson": _from_json,
    "b64enc": _encoder(base64.b64encode),
    "b64dec": _decode_base64,
    "b32enc": _encoder(base64.b32encode),
    "b32dec": lambda text: _text_of(base64.b32decode(text)),
    "sha1sum": lambda text: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(),
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "sha512sum": lambda text: hashlib.sha512(text.encode()).hexdigest(),
    "adler32sum": lambda text: str(zlib.adler32(text.encode())),
}
