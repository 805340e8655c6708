# SPDX-License-Identifier: Apache-2.0
"""Workflows and files of workflows with a few random faults, from a seed."""

from __future__ import annotations

import copy

from tests.unit.workflow.at_random import HOSTILE
from tests.unit.workflow.fields import fields, value_at
from tests.unit.workflow.yaml_file import written

NAMES = sorted({name for _, name in fields()})
JUNK = [
    None, True, False, -1, 0, 2**31, 2**40, -(2**63), 10**29, 1.5, -0.0, float("inf"),
    float("nan"), 1e300, "", " ", "\0", "\ud800", "\udfff\ud800", "\u202e", "\ufeff", "\0a",
    "\x1b[2J", "\x7f\x9f", "\u2028\u2029\x85", "a" * 200, "x" * 20_000, "é" * 5000, [], {}, [[]],
    [None], [{}], {"": ""}, {"\0": 1}, {"a": {"a": {}}}, ["a"] * 2000, [{}] * 300,
    {"x" * 300: 1}, {str(number): 1 for number in range(300)}, "2024-01-01", "12:30:00", "0x1f",
    "yes", "1_000", "0o17", ".inf", "~", "null", "=", "<<", "!!python/object:os.x y", *HOSTILE,
]  # fmt: skip
LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MARKS = [
    "&a ", "*a ", "<<: *a\n", "<<: {a: 1}\n", "!!python/object/apply:os.system ['touch owned'] ",
    "!!binary ", "!<x> ", "!!set ", "? ", ": ", "- ", "---\n", "...\n", "%TAG ! tag:x,2000:\n",
    "%YAML 1.1\n", "\t", "\r", "\0", "\ufeff", "\x85", "\ud800", "\u2028", "|", ">+9\n", "'", '"',
    "{", "}", "[", "]", ",", "#", "@", "`", "\\", "\n", "\n\n  ", "[" * 100, "{a: " * 50, LAUGHS,
    "2024-01-01", "1e999", "9" * 5000, "\x1b", "~",
]  # fmt: skip


def mutant(random, mapping):
    """Return a copy with one to three faults."""
    changed = copy.deepcopy(mapping)
    for _ in range(random.randint(1, 3)):
        path = random.choice(list(_paths(changed)))
        _damage(random, value_at(changed, path[:-1]), path[-1])
        if not changed:
            return changed
    return changed


def _damage(random, parent, key):
    """Change one item of a mapping or a list."""
    match random.randrange(8):
        case 0 | 1 | 2:
            parent[key] = copy.deepcopy(random.choice(JUNK))
        case 3:
            del parent[key]
        case 4:
            levels, inner_key = random.choice([1, 2, 40, 60]), random.choice(["steps", None])
            parent[key] = _deep(parent[key], levels, inner_key)
        case 5 if isinstance(parent, dict):
            names = [key.upper(), key + "s", key[1:], f"{key}\0", f"{key}\u200b"]
            parent[random.choice(names)] = parent.pop(key)
        case 6 if isinstance(parent, dict):
            parent[random.choice(NAMES)] = copy.deepcopy(random.choice([parent[key], *JUNK]))
        case _:
            parent[key] = [parent[key]] * random.choice([1, 2, 100])


def mutant_file(random, mapping):
    """Return a YAML file of a mutant or of the valid workflow, with random marks of YAML in it."""
    text = written(_encodable(mutant(random, mapping) if random.random() < 0.5 else mapping))
    for _ in range(random.randint(0, 3)):
        place = random.randrange(len(text) + 1)
        match random.randrange(4):
            case 0 | 1:
                text = text[:place] + random.choice(MARKS) + text[place:]
            case 2:
                text = text[:place] + text[place + random.choice([1, 5, 100]) :]
            case 3:
                start = text.rfind("\n", 0, place) + 1
                end = text.find("\n", place) + 1
                text = text[:end] + text[start:end] * random.choice([1, 3, 200]) + text[end:]
    return text


def _paths(value, path=()):
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from _paths(item, (*path, key))


def _deep(value, levels, key):
    for _ in range(levels):
        value = {key: [value]} if key else [value]
    return value


def _encodable(value):
    """Return the value without characters that cannot be encoded."""
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
