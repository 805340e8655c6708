# SPDX-License-Identifier: Apache-2.0
"""Inserts a few random faults into valid workflows. The results are called mutants."""

from __future__ import annotations

import copy

from tests.unit.workflow.fields import fields, value_at
from tests.unit.workflow.random_workflows import HOSTILE
from tests.unit.workflow.yaml_file import to_yaml

NAMES = sorted({name for _, name in fields()})
# Values that are invalid in most fields.
JUNK_VALUES = [
    None, True, False, -1, 0, 2**31, 2**40, -(2**63), 10**29, 1.5, -0.0, float("inf"),
    float("nan"), 1e300, "", " ", "\0", "\ud800", "\udfff\ud800", "\u202e", "\ufeff", "\0a",
    "\x1b[2J", "\x7f\x9f", "\u2028\u2029\x85", "a" * 200, "x" * 20_000, "é" * 5000, [], {}, [[]],
    [None], [{}], {"": ""}, {"\0": 1}, {"a": {"a": {}}}, ["a"] * 2000, [{}] * 300,
    {"x" * 300: 1}, {str(number): 1 for number in range(300)}, "2024-01-01", "12:30:00", "0x1f",
    "yes", "1_000", "0o17", ".inf", "~", "null", "=", "<<", "!!python/object:os.x y", *HOSTILE,
]  # fmt: skip


def _billion_laughs():
    """Return YAML whose aliases expand to a list with 9**9 items."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]\n"]
    for previous_name, name in zip("abcdefgh", "bcdefghi", strict=True):
        aliases = ",".join([f"*{previous_name}"] * 9)
        lines.append(f"{name}: &{name} [{aliases}]\n")
    return "".join(lines)


YAML_FRAGMENTS = [
    "&a ", "*a ", "<<: *a\n", "<<: {a: 1}\n", "!!python/object/apply:os.system ['touch owned'] ",
    "!!binary ", "!<x> ", "!!set ", "? ", ": ", "- ", "---\n", "...\n", "%TAG ! tag:x,2000:\n",
    "%YAML 1.1\n", "\t", "\r", "\0", "\ufeff", "\x85", "\ud800", "\u2028", "|", ">+9\n", "'", '"',
    "{", "}", "[", "]", ",", "#", "@", "`", "\\", "\n", "\n\n  ", "[" * 100, "{a: " * 50,
    "2024-01-01", "1e999", "9" * 5000, "\x1b", "~", _billion_laughs(),
]  # fmt: skip


def mutant(random, mapping):
    """Return a copy of a workflow with one to three faults."""
    changed_mapping = copy.deepcopy(mapping)
    for _ in range(random.randint(1, 3)):
        path = random.choice(list(_paths(changed_mapping)))
        _damage(random, value_at(changed_mapping, path[:-1]), path[-1])
        if not changed_mapping:
            break  # An empty workflow has no path to damage.
    return changed_mapping


def _damage(random, parent, key):
    """Change one item of a mapping or a list."""
    match random.randrange(8):
        case 0 | 1 | 2:
            parent[key] = copy.deepcopy(random.choice(JUNK_VALUES))
        case 3:
            del parent[key]
        case 4:
            levels = random.choice([1, 2, 40, 60])
            inner_key = random.choice(["steps", None])
            parent[key] = _nested(parent[key], levels, inner_key)
        case 5 if isinstance(parent, dict):
            names = [key.upper(), key + "s", key[1:], f"{key}\0", f"{key}\u200b"]
            parent[random.choice(names)] = parent.pop(key)
        case 6 if isinstance(parent, dict):
            parent[random.choice(NAMES)] = copy.deepcopy(random.choice([parent[key], *JUNK_VALUES]))
        case _:
            parent[key] = [parent[key]] * random.choice([1, 2, 100])


def mutant_file(random, mapping):
    """Return a workflow or a mutant of it as YAML, with up to three faults in the text."""
    if random.random() < 0.5:
        mapping = mutant(random, mapping)
    text = to_yaml(writable(mapping))
    for _ in range(random.randint(0, 3)):
        text = damage_text(random, text)
    return text


def damage_text(random, text):
    """Insert a fragment of YAML, remove characters, or repeat a line."""
    position = random.randrange(len(text) + 1)
    match random.randrange(4):
        case 0 | 1:
            return text[:position] + random.choice(YAML_FRAGMENTS) + text[position:]
        case 2:
            return text[:position] + text[position + random.choice([1, 5, 100]) :]
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position) + 1
    return text[:end] + text[start:end] * random.choice([1, 3, 200]) + text[end:]


def _paths(value, path=()):
    """Yield the path of each item in a mapping or a list, including nested items."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from _paths(item, (*path, key))


def _nested(value, levels, key):
    """Return the value inside of nested lists. With a key, each list is the item of a mapping."""
    for _ in range(levels):
        value = {key: [value]} if key else [value]
    return value


def writable(value):
    """Return the value without characters that cannot be encoded."""
    if isinstance(value, dict):
        return {writable(key): writable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [writable(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value
