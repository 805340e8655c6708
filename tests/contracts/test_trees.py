# SPDX-License-Identifier: Apache-2.0
"""Each file of forge tests has a tree of its cases, with the same names.

Rule 1: a leaf is the name of a test in words: ``a job is settled once`` is
``test_a_job_is_settled_once``, or that name with the prefix ``testFuzz_`` or ``invariant_``. Every
leaf has a test and every test has a leaf.
Rule 2: the cases in which a function refuses a call come first.
"""

import re
from itertools import pairwise
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2] / "contracts" / "test"
FILES = sorted(TESTS.rglob("*.t.sol"))
NODE = re.compile(r"(?P<indent>(?:│   |    )*)(?:├── |└── )(?P<text>.+)")
TEST = re.compile(r"function (?:test|testFuzz|invariant)_(\w+)\(")


def tree_of(path):
    return path.with_name(path.name.replace(".t.sol", ".tree"))


def read(tree):
    """Return the nodes of a tree as (depth, text); fail if the file is not a tree."""
    nodes = []
    for line in filter(None, tree.read_text().splitlines()):
        match = NODE.fullmatch(line)
        assert match or re.fullmatch(r"[^│├└\s].*", line), f"{tree.name}: {line}"
        nodes.append((len(match["indent"]) // 4 + 1, match["text"]) if match else (0, line))
    for (depth, text), (next_depth, _) in pairwise(nodes):
        assert next_depth <= depth + 1, f"{tree.name}: a step is missing below {text}"
    return nodes


def leaves(nodes):
    following = [*nodes[1:], (0, "")]
    return [
        text for (depth, text), (below, _) in zip(nodes, following, strict=True) if below <= depth
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_tests_and_leaves_are_the_same(path):
    tests = [name.replace("_", " ") for name in TEST.findall(path.read_text())]

    assert tree_of(path).exists(), f"{tree_of(path).name} is missing"
    assert sorted(leaves(read(tree_of(path)))) == sorted(tests)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_refusals_come_first(path):
    first_below, late = None, []
    for depth, text in read(tree_of(path)):
        if depth == 0:
            first_below = None
        elif depth == 1:
            first_below = first_below or text
            if text == "refuses" and first_below != text:
                late.append(text)

    assert late == []


def test_every_tree_has_tests():
    trees = set(TESTS.rglob("*.tree"))

    assert trees - set(map(tree_of, FILES)) == set()
