# SPDX-License-Identifier: Apache-2.0
"""The mutants of a Solidity source: texts that differ from it by one small mistake that a person
could make.

Rule 1: text in, text out; whether a mutant compiles is for the compiler to say.
Rule 2: forge's formatter wrote the source, so a binary operator has white space on both sides.
Comments, strings, imports, and what stands outside contracts and libraries are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from gridstead.domain.lifecycle import JobState

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "|": "&"}
LOGIC = {"&&": "||", "||": "&&"}
ASSIGNMENTS = {"+=": "-=", "-=": "+=", "|=": "="}
WORDS = {"true": "false", "false": "true"}
BINARY = COMPARISONS | ARITHMETIC | LOGIC | ASSIGNMENTS
STATES = tuple(state.name for state in JobState)
KINDS = ("CLAIMABLE", "CANCELLING", "TOP_UP")
# What takes parentheses and is not called, or whose parameters would only take other names.
NOT_CALLS = re.compile(
    r"catch|constructor|error|event|for|function|if|mapping|modifier|returns|type|while"
)
DECLARATION = re.compile(
    r"\(?[A-Za-z_][\w.\[\]]*( (memory|storage|calldata))? [a-z_]\w*(;|,| =|\))"
)
STATEMENT = re.compile(r"(?<=[;{}\n])\s*([^\s;{}][^;{}]*(\{[^;{}]*\}[^;{}]*)*;)")
KEPT = ("if", "for", "while", "unchecked", "assembly", "try", "using", "_;")


@dataclass(frozen=True)
class Mutant:
    """One mistake: what stands at an offset of the source, and what stands there instead."""

    start: int
    old: str
    new: str

    def apply(self, source: str) -> str:
        """Return the source with the mistake."""
        return source[: self.start] + self.new + source[self.start + len(self.old) :]


def mutants_of(source: str) -> tuple[Mutant, ...]:
    """Return every mutant of a source once, by offset."""
    masked = _mask(source)
    begins = re.search(r"^(abstract contract|contract|library) ", masked, re.MULTILINE)
    if begins is None:
        return ()
    finders = (
        _tokens,
        _numbers,
        _members,
        _conditions,
        _statements,
        _swaps,
        _ternaries,
        _modifiers,
    )
    found = {mutant for find in finders for mutant in find(masked) if mutant.start > begins.end()}
    # What was masked is taken from the source again.
    whole = {
        Mutant(
            one.start, source[one.start : one.start + len(one.old)], _unmask(one, source, masked)
        )
        for one in found
    }
    return tuple(
        sorted((one for one in whole if one.old != one.new), key=lambda one: (one.start, one.new))
    )


def _mask(source: str) -> str:
    """Return the source with its comments and the insides of its strings as spaces."""

    def blank(match: re.Match[str]) -> str:
        text = match.group()
        return f'"{" " * (len(text) - 2)}"' if text[0] == '"' else re.sub(r"[^\n]", " ", text)

    return re.sub(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"', blank, source, flags=re.DOTALL)


def _unmask(mutant: Mutant, source: str, masked: str) -> str:
    """Return a mutant's new text with the strings that it took over from the old one."""
    strings = {}
    for match in re.finditer(r'"[^"]*"', masked[mutant.start : mutant.start + len(mutant.old)]):
        strings.setdefault(
            match.group(), source[mutant.start + match.start() : mutant.start + match.end()]
        )
    return re.sub(r'"[^"]*"', lambda match: strings.get(match.group(), match.group()), mutant.new)


def _tokens(masked: str) -> Iterator[Mutant]:
    for match in re.finditer(r"(?<=\s)(\S{1,2})(?=\s)", masked):
        if match.group() in BINARY:
            yield Mutant(match.start(), match.group(), BINARY[match.group()])
    for match in re.finditer(r"\b(true|false)\b", masked):
        yield Mutant(match.start(), match.group(), WORDS[match.group()])
    for match in re.finditer(r"!(?=[\w(])", masked):
        yield Mutant(match.start(), "!", "")


def _numbers(masked: str) -> Iterator[Mutant]:
    for match in re.finditer(r"(?<![\w.])\d[\d_]*\b", masked):
        yield Mutant(match.start(), match.group(), str(int(match.group()) + 1))


def _members(masked: str) -> Iterator[Mutant]:
    """Another member of the same enumeration."""
    for name, members in (("JobStatus", STATES), ("Kind", KINDS)):
        for match in re.finditer(rf"\b{name}\.([A-Z_]+)\b", masked):
            other = members[(members.index(match.group(1)) + 1) % len(members)]
            yield Mutant(match.start(), match.group(), f"{name}.{other}")


def _conditions(masked: str) -> Iterator[Mutant]:
    """A branch that is always or never taken."""
    for match in re.finditer(r"\bif \(", masked):
        condition = masked[match.end() : _closing(masked, match.end() - 1)]
        for constant in ("true", "false"):
            yield Mutant(match.end(), condition, constant)


def _statements(masked: str) -> Iterator[Mutant]:
    """A statement left out."""
    for body_start, body_end in _bodies(masked):
        for match in re.finditer(
            r"(?<=[;{}\n])\s*([^\s;{}][^;{}]*(\{[^;{}]*\}[^;{}]*)*;)", masked[body_start:body_end]
        ):
            text, start = match.group(1), body_start + match.start(1)
            if _depth(masked[body_start:start], "(", ")"):
                continue
            if text.startswith("else ") and not text.startswith("else if"):
                yield Mutant(start + len("else "), text[len("else ") :], "{}")
            elif not text.startswith((*KEPT, "else")) and not DECLARATION.match(text):
                yield Mutant(start, text, "")


def _bodies(masked: str) -> Iterator[tuple[int, int]]:
    """Where the body of each function and constructor begins and ends."""
    for match in re.finditer(r"^    (function|constructor)\b[^;{]*\{", masked, re.MULTILINE):
        yield match.end() - 1, _closing(masked, match.end() - 1, "{", "}")


def _swaps(masked: str) -> Iterator[Mutant]:
    """Two neighbouring arguments in each other's place."""
    for match in re.finditer(r"(?:\b(function|event|error|modifier) +)?\b([A-Za-z_]\w*)\(", masked):
        if match.group(1) or NOT_CALLS.fullmatch(match.group(2)):
            continue
        end = _closing(masked, match.end() - 1)
        spans = list(_arguments(masked, match.end(), end))
        for (left, middle), (right, last) in pairwise(spans):
            old = masked[left:last]
            new = masked[right:last] + masked[middle:right] + masked[left:middle]
            yield Mutant(left, old, new)


def _arguments(masked: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    depth = 0
    for at in range(start, end + 1):
        if at == end or (masked[at] == "," and depth == 0):
            text = masked[start:at]
            if text.strip():
                yield start + len(text) - len(text.lstrip()), start + len(text.rstrip())
            start = at + 1
        depth += (masked[at] in "([{") - (masked[at] in ")]}")


def _ternaries(masked: str) -> Iterator[Mutant]:
    """The two results of a choice in each other's place."""
    for match in re.finditer(r" \? ([^?:;]+?)(\s+: )([^?:;,]+?)(?=[;,]|\)?;)", masked):
        first, between, second = match.groups()
        surplus = _depth(second, "(", ")")
        if surplus < 0:
            second = second[:surplus]
        yield Mutant(match.start(1), first + between + second, second + between + first)


def _modifiers(masked: str) -> Iterator[Mutant]:
    """A call that anybody may make."""
    for match in re.finditer(r"(?<=\s)(onlyRole\(\w+\)|onlyOwner)(?=\s)", masked):
        yield Mutant(match.start(), match.group(), "")


def _closing(text: str, at: int, opening: str = "(", closing: str = ")") -> int:
    """Return where the bracket at an offset closes."""
    depth = 0
    for position in range(at, len(text)):
        depth += (text[position] == opening) - (text[position] == closing)
        if depth == 0:
            return position
    raise ValueError(f"no bracket closes the one at {at}")


def _depth(text: str, opening: str, closing: str) -> int:
    return text.count(opening) - text.count(closing)
