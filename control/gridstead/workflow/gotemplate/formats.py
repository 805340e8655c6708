# SPDX-License-Identifier: Apache-2.0
"""The template function ``printf``, with the verbs and flags of Go's package fmt.

As in Go, a verb that does not fit its value is no error. The text then says what is wrong, for
example ``%!d(string=x)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gridstead.workflow.gotemplate.limits import work_of
from gridstead.workflow.gotemplate.nodes import Value
from gridstead.workflow.gotemplate.printing import (
    NIL,
    check_size,
    float_text,
    quoted,
    scalar_text,
    to_text,
)

MAX_WIDTH = 4096

_DIRECTIVE = re.compile(
    r"""%(?P<flags>[-+#\ 0]*)(?P<width>[0-9]{1,9}|\*)?(?:\.(?P<precision>\*|[0-9]{0,9}))?
    (?:\[(?P<index>[0-9]{1,4})\])?(?P<verb>.|$)""",
    re.VERBOSE | re.DOTALL,
)
_BASES = {"d": "d", "v": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}
_PREFIXES = {"b": "0b", "o": "0", "O": "0o", "x": "0x", "X": "0X"}
_UNAVAILABLE_VERBS = ("T", "p", "U")


def printf(count_work: Callable[[int], None], format_text: str, *values: Value) -> str:
    """Return a text in which each directive such as ``%03d`` is replaced by a formatted value.

    A format can name the same value many times, so ``count_work`` is called for each directive.
    """
    return _Formatter(count_work, format_text, values).text()


@dataclass(frozen=True, slots=True)
class _Directive:
    """A directive without its position: ``%-8.3f`` has a flag, a width, a precision and a verb."""

    flags: str
    width: int
    precision: int | None
    verb: str


@dataclass(slots=True)
class _Formatter:
    """Formats the values of one call.

    Attributes:
        count_work: Counts work.
        template: The text with directives.
        values: The values.
        next_index: The number of the value that the next directive formats.
        has_explicit_index: Whether a directive has named its value by number.
        size: Number of characters that were formatted.
    """

    count_work: Callable[[int], None]
    template: str
    values: Sequence[Value]
    next_index: int = 0
    has_explicit_index: bool = False
    size: int = 0

    def text(self) -> str:
        text = _DIRECTIVE.sub(self._formatted, self.template)
        if self.has_explicit_index or self.next_index >= len(self.values):
            return text
        extra_values = ", ".join(map(_type_and_text, self.values[self.next_index :]))
        return f"{text}%!(EXTRA {extra_values})"

    def _formatted(self, match: re.Match[str]) -> str:
        flags, verb = match["flags"], match["verb"]
        width = self._width_or_precision(match["width"]) or 0
        if width < 0:  # only "*" can be negative
            flags, width = flags + "-", -width
        precision = self._width_or_precision(match["precision"])
        if precision is not None and precision < 0:
            precision = None
        if max(width, precision or 0) > MAX_WIDTH:
            raise ValueError(f"has a width or precision of more than {MAX_WIDTH} characters")
        if match["index"]:
            self.next_index, self.has_explicit_index = int(match["index"]) - 1, True
        if verb in ("", "%"):
            return "%" if verb else "%!(NOVERB)"
        if verb in _UNAVAILABLE_VERBS or (verb == "v" and "#" in flags):
            raise ValueError(f"has the verb %{verb}, which depends on types of Go")
        if not 0 <= self.next_index < len(self.values):
            return f"%!{verb}({'BADINDEX' if match['index'] else 'MISSING'})"
        value = self.values[self.next_index]
        self.next_index += 1
        self.count_work(work_of(value))
        return self._value(_Directive(flags, width, precision, verb), value)

    def _width_or_precision(self, text: str | None) -> int | None:
        """Return a width or precision. ``*`` is the next value."""
        if text != "*":
            if text is None:
                return None
            return int(text) if text else 0  # a precision such as "%.f" has no digits
        value = self.values[self.next_index] if self.next_index < len(self.values) else None
        self.next_index += 1
        if not isinstance(value, int):
            raise TypeError("has a width or precision that is not a whole number")
        return int(value)

    def _value(self, directive: _Directive, value: Value) -> str:
        if isinstance(value, Mapping) and directive.verb == "v" and not directive.width:
            return self._counted(to_text(value))
        if isinstance(value, Mapping):
            keys = sorted(value)
            pairs = [
                f"{self._value(directive, key)}:{self._value(directive, value[key])}"
                for key in keys
            ]
            return f"map[{' '.join(pairs)}]"
        if isinstance(value, list | tuple):
            return f"[{' '.join(self._value(directive, item) for item in value)}]"
        text = _scalar(directive, value)
        if text is None:
            return self._counted(f"%!{directive.verb}({_type_and_text(value)})")
        return self._counted(_padded(text, directive, value))

    def _counted(self, text: str) -> str:
        self.size += len(text)
        check_size(self.size)
        return text


def _scalar(directive: _Directive, value: Value) -> str | None:
    """Return the text of a value that is not nested. None if the verb does not fit the value."""
    if value is None:
        return NIL if directive.verb == "v" else None
    if isinstance(value, bool):
        return scalar_text(value) if directive.verb in ("t", "v") else None
    formatters: dict[type, Callable[[_Directive, Value], str | None]] = {
        str: _text, int: _integer, float: _float,
    }  # fmt: skip
    return formatters[type(value)](directive, value)


def _text(directive: _Directive, value: str) -> str | None:
    shortened_value = value[: directive.precision]
    match directive.verb:
        case "s" | "v":
            return shortened_value
        case "q":
            return quoted(shortened_value)
        case "x" | "X":
            digits = value.encode()[: directive.precision].hex()
            return digits if directive.verb == "x" else digits.upper()
        case _:
            return None


def _integer(directive: _Directive, value: int) -> str | None:
    verb, precision = directive.verb, directive.precision
    if verb == "c":
        return chr(value)
    if verb not in _BASES:
        return None
    sign = _sign(directive, is_negative=value < 0)
    digits = format(abs(value), _BASES[verb])
    if precision is not None:
        is_nothing = precision == 0 and value == 0  # Go prints no digit
        digits = "" if is_nothing else digits.zfill(precision)
    elif _pads_with_zeros(directive):
        digits = digits.zfill(directive.width - len(sign))
    has_prefix = verb == "O" or "#" in directive.flags
    prefix = _PREFIXES.get(verb, "") if has_prefix else ""
    return f"{sign}{prefix}{digits}"


def _float(directive: _Directive, value: float) -> str | None:
    verb, precision = directive.verb, directive.precision
    if verb not in "vgGeEfF":
        return None
    if verb in "vgG" and precision is None:
        digits = float_text(abs(value))
        digits = digits.upper() if verb == "G" else digits
    else:
        places = 6 if precision is None else precision
        format_verb = "g" if verb == "v" else verb
        digits = format(abs(value), f".{places}{format_verb}")
    sign = _sign(directive, is_negative=value < 0)
    if _pads_with_zeros(directive):
        digits = digits.zfill(directive.width - len(sign))
    return sign + digits


def _sign(directive: _Directive, *, is_negative: bool) -> str:
    if is_negative:
        return "-"
    if "+" in directive.flags and directive.verb != "v":
        return "+"
    return " " if " " in directive.flags else ""


def _pads_with_zeros(directive: _Directive) -> bool:
    return "0" in directive.flags and "-" not in directive.flags


def _padded(text: str, directive: _Directive, value: Value) -> str:
    if "-" in directive.flags:
        return text.ljust(directive.width)
    # Numbers have their zeros already. Zeros before other values are Go's behaviour too.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fill = "0" if _pads_with_zeros(directive) and not is_number else " "
    return text.rjust(directive.width, fill)


def _type_and_text(value: Value) -> str:
    """Return the type and the text of a value, for a directive that does not fit."""
    if value is None:
        return NIL
    names = {bool: "bool", int: "int", float: "float64", str: "string", list: "[]interface {}"}
    return f"{names.get(type(value), 'map[string]interface {}')}={to_text(value)}"
