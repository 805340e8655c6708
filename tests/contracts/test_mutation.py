# SPDX-License-Identifier: Apache-2.0
"""The campaign of mutants makes each kind of mistake, and none where none can be made."""

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
    """Return what each mutant makes of the body of a function."""
    source = FRAME % (head, body)
    before, after = source.split(body, maxsplit=1)
    changed = [mutant.apply(source) for mutant in mutants_of(source)]
    return {
        one.removeprefix(before).removesuffix(after).strip()
        for one in changed
        if one.startswith(before)
    }


@pytest.mark.parametrize(
    ("body", "mistakes"),
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
def test_each_mistake_is_made(body, mistakes):
    assert mutate(body) == mistakes


def test_a_modifier_is_forgotten():
    source = FRAME % (" onlyOwner", "        g();")

    assert source.replace(" onlyOwner", " ") in {
        mutant.apply(source) for mutant in mutants_of(source)
    }


def test_a_change_is_told_by_its_lines():
    source = FRAME % ("", "        x =\n            a < b;")
    mutant = next(one for one in mutants_of(source) if one.new == "<=")

    assert describe("C.sol", source, mutant) == Change("C.sol", 9, "a < b;", "a <= b;")
