# SPDX-License-Identifier: Apache-2.0
"""Functions of templates for numbers. Whole numbers have 64 bits, as in Go."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import reduce

from gridstead.workflow.gotemplate.nodes import Value
from gridstead.workflow.gotemplate.printing import check_size

_MAX_INTEGER = 2**63 - 1
_WHOLE_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][-+]?[0-9]{1,3})?")
_QUOTIENT_PLACES = Decimal("1e-16")
_PRECISION = 700  # digits; enough for the sum of the smallest and the largest number


def to_integer(value: Value) -> int:
    """Return a number without its fraction, or the number that a text contains.

    Any other text counts as 0.
    """
    if isinstance(value, str):
        return int(value) if _WHOLE_NUMBER.fullmatch(value) else 0
    if value is None:
        return 0
    if not isinstance(value, int | float):
        raise TypeError("is not a number")
    return _check_64_bits(int(value))


def to_float(value: Value) -> float:
    """Return a number with a fraction. A text that is no number counts as 0."""
    if isinstance(value, str):
        return _check_finite(float(value)) if _FLOAT.fullmatch(value) else 0.0
    if value is None:
        return 0.0
    if not isinstance(value, int | float):
        raise TypeError("is not a number")
    return float(value)


def _check_64_bits(value: int) -> int:
    if abs(value) > _MAX_INTEGER:
        raise ValueError("is too large a number")
    return value


def _check_finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("is too large a number")
    return value


def _sum(*values: Value) -> int:
    return _check_64_bits(sum(map(to_integer, values)))


def _product(*values: Value) -> int:
    result = 1
    for value in values:
        result = _check_64_bits(result * to_integer(value))
    return result


def _quotient(left: Value, right: Value) -> int:
    divisor = to_integer(right)
    if divisor == 0:
        raise ValueError("divides by zero")
    # Go truncates towards zero. Python's // rounds down.
    quotient = abs(to_integer(left)) // abs(divisor)
    is_negative = (to_integer(left) < 0) != (divisor < 0)
    return -quotient if is_negative else quotient


def _remainder(left: Value, right: Value) -> int:
    return to_integer(left) - _quotient(left, right) * to_integer(right)


def _decimal_function(operation: Callable[[Decimal, Decimal], Decimal]) -> Callable[..., float]:
    """Return a function that calculates with decimal numbers, so ``addf 0.1 0.2`` is 0.3."""

    def calculate(first: Value, *others: Value) -> float:
        with localcontext() as context:
            context.prec = _PRECISION
            operands = [Decimal(repr(to_float(value))) for value in (first, *others)]
            return _check_finite(float(reduce(operation, operands)))

    return calculate


def _decimal_quotient(left: Decimal, right: Decimal) -> Decimal:
    if right == 0:
        raise ValueError("divides by zero")
    return (left / right).quantize(_QUOTIENT_PLACES)


def _round(value: Value, places: Value, round_on: float = 0.5) -> float:
    """Return a number rounded to decimal places. A digit of at least ``round_on`` rounds up."""
    scale = 10.0 ** max(-300, min(to_integer(places), 300))
    scaled_value = _check_finite(scale * to_float(value))
    fraction = scaled_value - math.trunc(scaled_value)
    rounds_up = fraction >= to_float(round_on)
    round_number = math.ceil if rounds_up else math.floor
    return _check_finite(round_number(scaled_value) / scale)


def _range(start: Value, end: Value, step: Value) -> list[int]:
    first, last, distance = to_integer(start), to_integer(end), to_integer(step)
    if distance == 0:
        return []
    numbers = range(first, last, distance)
    check_size(len(numbers))
    return list(numbers)


def _until(end: Value) -> list[int]:
    return _range(0, end, 1 if to_integer(end) >= 0 else -1)


def _sequence(*values: Value) -> str:
    """Return the numbers that the program ``seq`` prints, separated by spaces."""
    start, step, end = 1, None, 0
    match [to_integer(value) for value in values]:
        case [last]:
            end = last
        case [first, last]:
            start, end = first, last
        case [first, between, last]:
            start, step, end = first, between, last
        case _:
            return ""
    if step is None:
        step = 1 if end >= start else -1
    after_end = end + (1 if step > 0 else -1)  # _range() excludes its end
    return " ".join(map(str, _range(start, after_end, step)))


NUMBERS: dict[str, Callable[..., Value]] = {
    "int": to_integer,
    "int64": to_integer,
    "atoi": to_integer,
    "toDecimal": lambda text: int(text, 8) if re.fullmatch("[0-7]{1,21}", text) else 0,
    "add": _sum,
    "add1": lambda value: _sum(value, 1),
    "sub": lambda left, right: _check_64_bits(to_integer(left) - to_integer(right)),
    "mul": _product,
    "div": _quotient,
    "mod": _remainder,
    "max": lambda first, *others: max(map(to_integer, (first, *others))),
    "biggest": lambda first, *others: max(map(to_integer, (first, *others))),
    "min": lambda first, *others: min(map(to_integer, (first, *others))),
    "float64": to_float,
    "addf": _decimal_function(lambda left, right: left + right),
    "add1f": lambda value: _check_finite(to_float(value) + 1),
    "subf": _decimal_function(lambda left, right: left - right),
    "mulf": _decimal_function(lambda left, right: left * right),
    "divf": _decimal_function(_decimal_quotient),
    "maxf": lambda first, *others: max(map(to_float, (first, *others))),
    "minf": lambda first, *others: min(map(to_float, (first, *others))),
    "ceil": lambda value: float(math.ceil(to_float(value))),
    "floor": lambda value: float(math.floor(to_float(value))),
    "round": _round,
    "until": _until,
    "untilStep": _range,
    "seq": _sequence,
}
