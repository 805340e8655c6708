# SPDX-License-Identifier: Apache-2.0
"""Tests of the trees (``.tree``). Each file of forge tests has a tree with the names of its tests.

Rule 1: Each leaf is the name of a test in words. For example, leaf ``a job is settled once`` stands
for ``test_a_job_is_settled_once``, or for that name with prefix ``testFuzz_`` or ``invariant_``.
Rule 2: The cases in which a function refuses a call come before its other cases.
"""

import re
from itertools import pairwise
from pathlib import Path

import pytest

TESTS_FOLDER = Path(__file__).resolve().parents[2] / "contracts" / "test"
TEST_FILES = sorted(TESTS_FOLDER.rglob("*.t.sol"))
# A line such as "│   ├── only the owner mints".
NODE = re.compile(r"(?P<indent>(?:│   |    )*)(?:├── |└── )(?P<text>.+)")
TEST_NAME = re.compile(r"function (?:test|testFuzz|invariant)_(\w+)\(")


def tree_of(path):
    return path.with_name(path.name.replace(".t.sol", ".tree"))


def read_nodes(tree):
    """Return the nodes of a tree as (depth, text). Fails if the file is not a tree."""
    nodes = []
    for line in filter(None, tree.read_text().splitlines()):
        match = NODE.fullmatch(line)
        if match:
            depth = len(match["indent"]) // 4 + 1
            nodes.append((depth, match["text"]))
        else:
            assert re.fullmatch(r"[^│├└\s].*", line), f"{tree.name}: {line}"
            nodes.append((0, line))
    for (depth, text), (next_depth, _) in pairwise(nodes):
        assert next_depth <= depth + 1, f"{tree.name}: a node is missing below {text}"
    return nodes


def leaves(nodes):
    """Return the texts of the nodes without children."""
    texts = []
    # The additional node at the end makes the last node a leaf.
    for (depth, text), (next_depth, _) in pairwise([*nodes, (0, "")]):
        if next_depth <= depth:
            texts.append(text)
    return texts


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.name)
def test_leaves_of_a_tree_are_the_names_of_the_tests(path):
    tests = [name.replace("_", " ") for name in TEST_NAME.findall(path.read_text())]

    assert tree_of(path).exists(), f"{tree_of(path).name} is missing"
    assert sorted(leaves(read_nodes(tree_of(path)))) == sorted(tests)


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.name)
def test_refused_calls_come_first_in_the_tree_of_a_function(path):
    function, first_case = None, None
    for depth, text in read_nodes(tree_of(path)):
        if depth == 0:
            function, first_case = text, None
        elif depth == 1:
            first_case = first_case or text
            if text == "refuses":
                assert first_case == "refuses", function


def test_every_tree_has_tests():
    trees = set(TESTS_FOLDER.rglob("*.tree"))

    assert trees - set(map(tree_of, TEST_FILES)) == set()
