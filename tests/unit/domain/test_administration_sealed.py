# SPDX-License-Identifier: Apache-2.0
"""A JobRepository without an admin: how it comes to that, and that all else goes on."""

from dataclasses import replace

import pytest
from tests.unit.domain.sets import GRID, NEW, OLD, STRANGER, apply, given, state, without

from gridstead.domain.administration import grant, hand_over, revoke, seal, take_over
from gridstead.domain.deployment import ROLE_CONTRACTS, Role, judge
from gridstead.errors import NotAllowed

GOVERNED = tuple(one for one in ROLE_CONTRACTS if one != "JobRepository")


def after(found, changes, sender):
    for change in changes:
        found = apply(found, change, sender)
    return found


def sealed():
    return after(state(), seal(state(), OLD), OLD)


def test_its_admin_resigns_last_and_nothing_is_wrong_then():
    found = given(state(), "JobRepository", Role.ADMIN, NEW)

    changes = seal(found, OLD)

    assert [(one.contract, one.function, one.arguments[1]) for one in changes] == [
        ("JobRepository", "revokeRole", NEW),
        ("JobRepository", "renounceRole", OLD),
    ]
    assert judge(after(found, changes, OLD)) == ()
    assert seal(after(found, changes, OLD), OLD) == ()
    assert seal(after(found, changes[:1], OLD), OLD) == changes[1:]


def test_only_its_admin_seals_it():
    with pytest.raises(NotAllowed, match=f"{NEW} is not admin of JobRepository"):
        seal(state(), NEW)


@pytest.mark.parametrize(
    "found",
    [
        given(state(), "JobRepository", Role.CONTRACT, STRANGER),
        without(state(), "JobRepository", Role.CONTRACT, GRID),
        replace(state(), first_block=None),
    ],
)
def test_what_is_wrong_or_not_known_is_not_made_lasting(found):
    with pytest.raises(NotAllowed, match="cannot seal JobRepository"):
        seal(found, OLD)


def test_a_sealed_set_is_handed_over_without_it():
    offered = after(sealed(), hand_over(sealed(), OLD, NEW), OLD)

    done = after(offered, take_over(offered, NEW), NEW)

    assert all(done.accounts(contract, Role.ADMIN) == (NEW,) for contract in GOVERNED)
    assert (judge(done), done.is_sealed) == ((), True)
    assert (hand_over(done, OLD, NEW), take_over(done, NEW)) == ((), ())


def test_it_may_be_sealed_while_the_set_is_handed_over():
    offered = after(state(), hand_over(state(), OLD, NEW), OLD)
    resigned = after(offered, seal(offered, OLD), OLD)

    done = after(resigned, take_over(resigned, NEW), NEW)

    assert judge(done) == ()


def test_a_second_admin_of_a_sealed_set_is_made_and_unmade():
    changes = grant(sealed(), OLD, Role.ADMIN, NEW)
    found = after(sealed(), changes, OLD)

    assert tuple(one.contract for one in changes) == GOVERNED
    assert judge(found) == ()
    assert tuple(one.contract for one in revoke(found, OLD, Role.ADMIN, NEW)) == GOVERNED
