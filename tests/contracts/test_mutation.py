# SPDX-License-Identifier: Apache-2.0
"""Tests of the mutation operators, which make small faulty changes in the contracts' source."""

import re

import pytest
from contracts.mutation.bench import CONTRACTS, COPIED_FOLDERS
from contracts.mutation.campaign import Change, describe
from contracts.mutation.operators import mutants_of

CONTRACT = """// a < b
import {A, B} from "./C.sol";

contract C {
    event Stored(uint256 a, uint256 b);

    function f(uint256 a, uint256 b) external%s {
%s
    }
}
"""


def mutate(body, head=""):
    """Return the function bodies of the mutants that change ``body``, the body of a function."""
    source = CONTRACT % (head, body)
    before, after = source.split(body, maxsplit=1)
    bodies = set()
    for mutant in mutants_of(source):
        mutated_source = mutant.apply(source)
        is_head_unchanged = mutated_source.startswith(before)
        if is_head_unchanged:
            bodies.add(mutated_source.removeprefix(before).removesuffix(after).strip())
    return bodies


@pytest.mark.parametrize(
    ("body", "mutations"),
    [
        # The empty body is the mutant without the statement.
        ("x = a < b;", {"", "x = a <= b;"}),
        ("x = a + b;", {"", "x = a - b;"}),
        ("x = a && !b;", {"", "x = a || !b;", "x = a && b;"}),
        ("x += 60;", {"", "x -= 60;", "x += 61;"}),
        ("x = true;", {"", "x = false;"}),
        ("x = JobStatus.PANICKED;", {"", "x = JobStatus.PENDING;"}),
        ("x = Kind.TOP_UP;", {"", "x = Kind.CLAIMABLE;"}),
        ("if (a) return;", {"if (true) return;", "if (false) return;"}),
        (
            "if (a) g(); else h();",
            {"if (true) g(); else h();", "if (false) g(); else h();", "if (a) g(); else {}"},
        ),
        ("g(a, h(b));", {"", "g(h(b), a);"}),
        ("x = a ? g : h;", {"", "x = a ? h : g;"}),
        ('require(a, "b < c");', {"", 'require("b < c", a);'}),
        # The operators do not remove declarations and do not change comments.
        ("uint256 x = a;", set()),
        ('emit Stored("x", a); // a < b', {"// a < b", 'emit Stored(a, "x"); // a < b'}),
    ],
)
def test_operators_make_the_expected_mutants(body, mutations):
    assert mutate(body) == mutations


def test_access_modifier_is_removed():
    source = CONTRACT % (" onlyOwner", "        g();")

    mutated_sources = [mutant.apply(source) for mutant in mutants_of(source)]
    assert source.replace(" onlyOwner", " ") in mutated_sources


def test_description_of_a_change_contains_the_old_and_the_new_line():
    source = CONTRACT % ("", "        x =\n            a < b;")
    mutant = next(mutant for mutant in mutants_of(source) if mutant.new == "<=")

    assert describe("C.sol", source, mutant) == Change("C.sol", 9, "a < b;", "a <= b;")


def test_the_copy_for_mutants_has_every_folder_that_a_source_imports():
    for file in (CONTRACTS / "test").rglob("*.sol"):
        for path in re.findall(r'from "(\.[^"]+)"', file.read_text()):
            imported = (file.parent / path).resolve()
            assert imported.relative_to(CONTRACTS).parts[0] in COPIED_FOLDERS
