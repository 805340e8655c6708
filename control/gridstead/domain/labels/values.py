# SPDX-License-Identifier: Apache-2.0
"""The form of the keys and values of labels.

Rule 1: a number is a plain decimal, such as ``1000`` or ``-2.5``, with at most 18 digits before and
    after its decimal point. Clients compare plain decimals as numbers, and all else as text.
Rule 2: a text that cannot be published without a change of its number is refused. For example,
    ``1e+06`` is not a plain decimal, and without its forbidden character ``+`` it would be
    another number.
Rule 3: a key and a value have at most 64 bytes, as in the contracts.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal

from gridstead.errors import InvalidInput

MAX_LABELS = 64
MAX_LABEL_BYTES = 64

_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")
_PARTS = re.compile(r"[A-Za-z0-9._](?:[A-Za-z0-9._-]*[A-Za-z0-9._])?")
# What people write in numbers, besides the characters that float() accepts.
_SEPARATORS = re.compile("[,' ]")
# Numbers of at least 1 have this many decimals, and smaller numbers this many significant digits.
_DECIMALS = 2
_SIGNIFICANT_DIGITS = 3
_MAX_EXPONENT = 16


def number_or_none(text: str) -> Decimal | None:
    """Return the exact number. Returns None if the text is not a plain decimal."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def looks_like_number(text: str) -> bool:
    """Return whether a person or a program may read a text as a number, such as ``1e6`` or ``5%``.

    ``inf``, ``nan`` and ``1_0`` are numbers too, because clients read them as such.
    """
    try:
        float(_SEPARATORS.sub("", text).removesuffix("%"))
    except ValueError:
        return False
    return True


def sanitise(text: str) -> str:
    """Return a text in the form that the grid uses for keys and values.

    The text is split at all characters except a to z, A to Z, 0 to 9, ``.``, ``_`` and ``-``.
    Leading and trailing ``-`` of each part are removed. The parts are joined by ``-``, in lower
    case.
    """
    return "-".join(_PARTS.findall(text)).lower()


def label_key(text: str) -> str:
    """Return the key of a label in the form of the grid.

    Raises:
        InvalidInput: If the key is empty or too long in this form.
    """
    key = sanitise(text)
    if not key:
        raise InvalidInput(
            f"invalid key {text[:80]!r} of a label: it has none of a to z, 0 to 9, . and _"
        )
    check_size(key, f"key {text[:80]!r} of a label")
    return key


def label_value(text: str, *, key: str) -> str:
    """Return the value of a label in the form of the grid. A plain decimal is unchanged.

    Args:
        text: The value.
        key: The key of the label, for error messages.

    Raises:
        InvalidInput: If the value is empty or too long in this form, or its number would change.
    """
    if number_or_none(text) is not None:
        return text
    value = sanitise(text)
    if looks_like_number(text) or looks_like_number(value):
        raise InvalidInput(
            f"invalid value {text[:80]!r} of label {key}: a number must be a plain decimal such as"
            " 1000 or -2.5, with at most 18 digits before and after the decimal point"
        )
    if not value:
        raise InvalidInput(
            f"invalid value {text[:80]!r} of label {key}: it has none of a to z, 0 to 9, . and _"
        )
    check_size(value, f"value {text[:80]!r} of label {key}")
    return value


def check_size(text: str, name: str) -> None:
    """Raise InvalidInput if a key or a value has more than 64 bytes."""
    size = len(text.encode())
    if size > MAX_LABEL_BYTES:
        raise InvalidInput(f"invalid {name}: it has {size} bytes, at most {MAX_LABEL_BYTES}")


def plain_decimal(number: Decimal) -> str:
    """Return a number as the value of a label: ``1234.50``, or ``0.00123`` if it is below 1.

    Raises:
        InvalidInput: If the number is not 0 and not between 10^-16 and 10^17.
    """
    if number == 0:
        return "0.00"
    if not number.is_finite() or abs(number.adjusted()) > _MAX_EXPONENT:
        raise InvalidInput(f"cannot write {number} as a number of at most 18 and 18 digits")
    decimals = _DECIMALS
    if number.adjusted() < 0:
        decimals = _SIGNIFICANT_DIGITS - 1 - number.adjusted()
    rounded = number.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_EVEN)
    return f"{rounded:f}"
