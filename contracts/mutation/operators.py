# SPDX-License-Identifier: Apache-2.0
"""The mutants of a Solidity source: copies with one small change that a person could make.

Rule 1: the functions convert text to text. They may yield mutants that do not compile, because the
compiler detects such mutants later.
Rule 2: the source is formatted by forge, so a binary operator has white space on both sides.
Comments, strings, imports, and code outside contracts and libraries are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from gridstead.domain.jobs.lifecycle import JobState

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "|": "&"}
LOGIC = {"&&": "||", "||": "&&"}
ASSIGNMENTS = {"+=": "-=", "-=": "+=", "|=": "="}
WORDS = {"true": "false", "false": "true"}
BINARY = COMPARISONS | ARITHMETIC | LOGIC | ASSIGNMENTS
STATES = tuple(state.name for state in JobState)
KINDS = ("CLAIMABLE", "CANCELLING", "TOP_UP")
# Parentheses after one of these words do not contain the arguments of a call.
NOT_CALLS = re.compile(
    r"catch|constructor|error|event|for|function|if|mapping|modifier|returns|type|while"
)
# A declaration of a variable, such as ``uint256 cost;`` or ``(bool ok, bytes memory data) =``.
DECLARATION = re.compile(
    r"\(?[A-Za-z_][\w.\[\]]*( (memory|storage|calldata))? [a-z_]\w*(;|,| =|\))"
)
# A statement that ends with a semicolon. It may contain braces, as in ``f{gas: 1}(x);``.
STATEMENT = re.compile(r"(?<=[;{}\n])\s*([^\s;{}][^;{}]*(\{[^;{}]*\}[^;{}]*)*;)")
# Statements that start with one of these words are not removed.
KEPT_STATEMENTS = ("if", "for", "while", "unchecked", "assembly", "try", "using", "_;")


@dataclass(frozen=True)
class Mutant:
    """One change of a source: an offset, the text at this offset, and the replacement."""

    start: int
    old: str
    new: str

    def apply(self, source: str) -> str:
        """Return the changed source."""
        return source[: self.start] + self.new + source[self.start + len(self.old) :]


def mutants_of(source: str) -> tuple[Mutant, ...]:
    """Return all mutants of a source, sorted by offset and without duplicates."""
    masked = _mask(source)
    first_contract = re.search(r"^(abstract contract|contract|library) ", masked, re.MULTILINE)
    if first_contract is None:
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
    mutants: set[Mutant] = set()
    for find in finders:
        for mutant in find(masked):
            unmasked = _unmask(mutant, source, masked)
            if mutant.start > first_contract.end() and unmasked.old != unmasked.new:
                mutants.add(unmasked)
    return tuple(sorted(mutants, key=lambda mutant: (mutant.start, mutant.new)))


def _mask(source: str) -> str:
    """Return the source with spaces in place of comments and of the contents of strings."""

    def blank(match: re.Match[str]) -> str:
        text = match.group()
        return f'"{" " * (len(text) - 2)}"' if text[0] == '"' else re.sub(r"[^\n]", " ", text)

    return re.sub(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"', blank, source, flags=re.DOTALL)


def _unmask(mutant: Mutant, source: str, masked: str) -> Mutant:
    """Return the mutant of the source that corresponds to a mutant of the masked source."""
    end = mutant.start + len(mutant.old)
    old = source[mutant.start : end]
    strings: dict[str, str] = {}
    for match in re.finditer(r'"[^"]*"', masked[mutant.start : end]):
        strings.setdefault(match.group(), old[match.start() : match.end()])
    new = re.sub(r'"[^"]*"', lambda match: strings.get(match.group(), match.group()), mutant.new)
    return Mutant(mutant.start, old, new)


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
    """Yield mutants with another member of an enumeration."""
    for name, members in (("JobStatus", STATES), ("Kind", KINDS)):
        for match in re.finditer(rf"\b{name}\.([A-Z_]+)\b", masked):
            other = members[(members.index(match.group(1)) + 1) % len(members)]
            yield Mutant(match.start(), match.group(), f"{name}.{other}")


def _conditions(masked: str) -> Iterator[Mutant]:
    """Yield mutants with a branch that is always or never taken."""
    for match in re.finditer(r"\bif \(", masked):
        condition = masked[match.end() : _closing(masked, match.end() - 1)]
        for constant in ("true", "false"):
            yield Mutant(match.end(), condition, constant)


def _statements(masked: str) -> Iterator[Mutant]:
    """Yield mutants in each of which one statement is removed."""
    for body_start, body_end in _bodies(masked):
        for match in STATEMENT.finditer(masked[body_start:body_end]):
            text, start = match.group(1), body_start + match.start(1)
            is_inside_parentheses = _depth(masked[body_start:start], "(", ")") != 0
            if is_inside_parentheses:
                continue
            if text.startswith("else ") and not text.startswith("else if"):
                yield Mutant(start + len("else "), text[len("else ") :], "{}")
            elif not text.startswith((*KEPT_STATEMENTS, "else")) and not DECLARATION.match(text):
                yield Mutant(start, text, "")


def _bodies(masked: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the body of each function and constructor."""
    for match in re.finditer(r"^    (function|constructor)\b[^;{]*\{", masked, re.MULTILINE):
        yield match.end() - 1, _closing(masked, match.end() - 1, "{", "}")


def _swaps(masked: str) -> Iterator[Mutant]:
    """Yield mutants with two adjacent arguments swapped."""
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
    """Yield start and end of each argument between two offsets."""
    depth = 0
    for offset in range(start, end + 1):
        character = masked[offset]
        if offset == end or (character == "," and depth == 0):
            text = masked[start:offset]
            if text.strip():
                yield start + len(text) - len(text.lstrip()), start + len(text.rstrip())
            start = offset + 1
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1


def _ternaries(masked: str) -> Iterator[Mutant]:
    """Yield mutants with the two results of a conditional expression swapped."""
    # A conditional expression, such as ``a ? b : c``, up to a comma or the end of the statement.
    for match in re.finditer(r" \? ([^?:;]+?)(\s+: )([^?:;,]+?)(?=[;,]|\)?;)", masked):
        first, between, second = match.groups()
        depth = _depth(second, "(", ")")
        if depth < 0:  # The text ends with brackets that were opened before the expression.
            second = second[:depth]
        yield Mutant(match.start(1), first + between + second, second + between + first)


def _modifiers(masked: str) -> Iterator[Mutant]:
    """Yield mutants in each of which one access modifier is removed."""
    for match in re.finditer(r"(?<=\s)(onlyRole\(\w+\)|onlyOwner)(?=\s)", masked):
        yield Mutant(match.start(), match.group(), "")


def _closing(text: str, start: int, opening: str = "(", closing: str = ")") -> int:
    """Return the offset of the bracket that closes the opening bracket at offset ``start``."""
    depth = 0
    for offset in range(start, len(text)):
        if text[offset] == opening:
            depth += 1
        elif text[offset] == closing:
            depth -= 1
        if depth == 0:
            return offset
    raise ValueError(f"no bracket closes the one at {start}")


def _depth(text: str, opening: str, closing: str) -> int:
    """Return the number of opening brackets in a text minus the number of closing brackets."""
    return text.count(opening) - text.count(closing)
