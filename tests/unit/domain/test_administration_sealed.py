# SPDX-License-Identifier: Apache-2.0
"""A JobRepository without an admin: how it comes to that, and that all else goes on."""

import pytest
from tests.unit.domain.sets import GRID, IMPOSTOR, NEW, OLD, apply, given, state, unsealed, without

from gridstead.domain.administration import grant, hand_over, revoke, seal, take_over
from gridstead.domain.contract_checks import check_contracts
from gridstead.domain.deployment import ROLE_CONTRACTS, Role
from gridstead.errors import NotAllowed

GOVERNED = tuple(one for one in ROLE_CONTRACTS if one != "JobRepository")


def after(found, changes, sender):
    for change in changes:
        found = apply(found, change, sender)
    return found


def grant_admin(found, sender, account):
    return grant(found, sender, Role.ADMIN, account)


def sealed():
    return after(unsealed(), seal(unsealed(), OLD), OLD)


def test_its_admin_resigns_last_and_nothing_is_wrong_then():
    found = given(unsealed(), "JobRepository", Role.ADMIN, NEW)

    changes = seal(found, OLD)

    assert [(one.contract, one.function, one.arguments[1]) for one in changes] == [
        ("JobRepository", "revokeRole", NEW),
        ("JobRepository", "renounceRole", OLD),
    ]
    assert check_contracts(after(found, changes, OLD)) == ()
    assert seal(after(found, changes, OLD), OLD) == ()
    assert seal(after(found, changes[:1], OLD), OLD) == changes[1:]


def test_only_its_admin_seals_it():
    with pytest.raises(NotAllowed, match=f"{NEW} is not admin of JobRepository"):
        seal(unsealed(), NEW)


@pytest.mark.parametrize(
    "found",
    [
        given(unsealed(), "JobRepository", Role.CONTRACT, IMPOSTOR),
        without(unsealed(), "JobRepository", Role.CONTRACT, GRID),
        unsealed(first_block=None),
    ],
)
def test_what_is_wrong_or_not_known_is_not_made_lasting(found):
    with pytest.raises(NotAllowed, match="cannot seal JobRepository"):
        seal(found, OLD)


def test_a_stranger_who_may_write_to_a_sealed_one_does_so_for_good():
    found = given(sealed(), "JobRepository", Role.CONTRACT, IMPOSTOR)

    with pytest.raises(NotAllowed, match=f"{OLD} is not admin of JobRepository"):
        revoke(found, OLD, Role.CONTRACT, IMPOSTOR)
    assert seal(found, OLD) == ()


def test_a_sealed_set_is_handed_over_without_it():
    offered = after(sealed(), hand_over(sealed(), OLD, NEW), OLD)

    done = after(offered, take_over(offered, NEW), NEW)

    assert all(done.accounts(contract, Role.ADMIN) == (NEW,) for contract in GOVERNED)
    assert (check_contracts(done), done.is_sealed) == ((), True)
    assert (hand_over(done, OLD, NEW), take_over(done, NEW)) == ((), ())


@pytest.mark.parametrize(
    "wish", [grant_admin, hand_over, lambda found, _, new_owner: take_over(found, new_owner)]
)
def test_who_cannot_know_that_it_is_sealed_is_told_how_to(wish):
    found = state(first_block=None)

    with pytest.raises(NotAllowed, match="known") as refusal:
        wish(found, OLD, NEW)

    assert "--first-block" in refusal.value.hint


def test_it_may_be_sealed_while_the_set_is_handed_over():
    offered = after(unsealed(), hand_over(unsealed(), OLD, NEW), OLD)
    resigned = after(offered, seal(offered, OLD), OLD)

    done = after(resigned, take_over(resigned, NEW), NEW)

    assert check_contracts(done) == ()


def test_a_second_admin_of_a_sealed_set_is_made_and_unmade():
    changes = grant(sealed(), OLD, Role.ADMIN, NEW)
    found = after(sealed(), changes, OLD)

    assert tuple(one.contract for one in changes) == GOVERNED
    assert check_contracts(found) == ()
    assert tuple(one.contract for one in revoke(found, OLD, Role.ADMIN, NEW)) == GOVERNED
