# SPDX-License-Identifier: Apache-2.0
"""The mutation operators make each kind of change, and only valid ones."""

import pytest
from contracts.mutation.campaign import Change, describe
from contracts.mutation.operators import mutants_of

FRAME = """// a < b
import {A, B} from "./C.sol";

contract C {
    event Told(uint256 a, uint256 b);

    function f(uint256 a, uint256 b) external%s {
%s
    }
}
"""


def mutate(body, head=""):
    """Return the body of a function after each mutation."""
    source = FRAME % (head, body)
    before, after = source.split(body, maxsplit=1)
    changed = [mutant.apply(source) for mutant in mutants_of(source)]
    return {
        mutated.removeprefix(before).removesuffix(after).strip()
        for mutated in changed
        if mutated.startswith(before)
    }


@pytest.mark.parametrize(
    ("body", "mutations"),
    [
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
        ("uint256 x = a;", set()),
        ('emit Told("x", a); // a < b', {"// a < b", 'emit Told(a, "x"); // a < b'}),
    ],
)
def test_every_operator_makes_its_mutants(body, mutations):
    assert mutate(body) == mutations


def test_access_modifier_is_removed():
    source = FRAME % (" onlyOwner", "        g();")

    assert source.replace(" onlyOwner", " ") in {
        mutant.apply(source) for mutant in mutants_of(source)
    }


def test_change_is_described_by_its_lines():
    source = FRAME % ("", "        x =\n            a < b;")
    mutant = next(mutated for mutated in mutants_of(source) if mutated.new == "<=")

    assert describe("C.sol", source, mutant) == Change("C.sol", 9, "a < b;", "a <= b;")
