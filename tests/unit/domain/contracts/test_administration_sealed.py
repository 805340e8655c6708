# SPDX-License-Identifier: Apache-2.0
"""Sealing JobRepository, and the administration of a set whose JobRepository is sealed."""

import pytest
from tests.unit.domain.contracts.sets import (
    GRID,
    NEW,
    OLD,
    OUTSIDER,
    apply_all,
    state,
    unsealed,
    with_role,
    without_role,
)

from gridstead.domain.contracts.administration import grant, hand_over, revoke, seal, take_over
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.contracts.deployment import ROLE_CONTRACTS, Role
from gridstead.errors import NotAllowed

GOVERNED = tuple(contract for contract in ROLE_CONTRACTS if contract != "JobRepository")


def grant_admin(grid, sender, account):
    return grant(grid, sender, Role.ADMIN, account)


def take_over_from(grid, _, new_owner):
    return take_over(grid, new_owner)


def sealed():
    return apply_all(unsealed(), seal(unsealed(), OLD), OLD)


def test_last_admin_of_a_sealed_contract_renounces_its_role_last():
    grid = with_role(unsealed(), "JobRepository", Role.ADMIN, NEW)

    changes = seal(grid, OLD)

    assert [(change.contract, change.function, change.arguments[1]) for change in changes] == [
        ("JobRepository", "revokeRole", NEW),
        ("JobRepository", "renounceRole", OLD),
    ]
    assert check_contracts(apply_all(grid, changes, OLD)) == ()


def test_interrupted_seal_is_completed_by_repeating_it():
    grid = with_role(unsealed(), "JobRepository", Role.ADMIN, NEW)
    changes = seal(grid, OLD)

    assert seal(apply_all(grid, changes[:1], OLD), OLD) == changes[1:]
    assert seal(apply_all(grid, changes, OLD), OLD) == ()


def test_only_the_admin_seals():
    with pytest.raises(NotAllowed, match=f"{NEW} is not admin of JobRepository"):
        seal(unsealed(), NEW)


@pytest.mark.parametrize(
    "grid",
    [
        with_role(unsealed(), "JobRepository", Role.CONTRACT, OUTSIDER),
        without_role(unsealed(), "JobRepository", Role.CONTRACT, GRID),
        unsealed(first_block=None),
    ],
)
def test_contract_with_wrong_or_unknown_writers_is_not_sealed(grid):
    with pytest.raises(NotAllowed, match="cannot seal JobRepository"):
        seal(grid, OLD)


def test_unauthorised_writer_of_a_sealed_contract_cannot_be_revoked():
    grid = with_role(sealed(), "JobRepository", Role.CONTRACT, OUTSIDER)

    with pytest.raises(NotAllowed, match=f"{OLD} is not admin of JobRepository"):
        revoke(grid, OLD, Role.CONTRACT, OUTSIDER)
    assert seal(grid, OLD) == ()


def test_sealed_set_is_handed_over_without_the_sealed_contract():
    offered = apply_all(sealed(), hand_over(sealed(), OLD, NEW), OLD)

    done = apply_all(offered, take_over(offered, NEW), NEW)

    assert {done.accounts(contract, Role.ADMIN) for contract in GOVERNED} == {(NEW,)}
    assert done.is_sealed
    assert check_contracts(done) == ()
    assert (hand_over(done, OLD, NEW), take_over(done, NEW)) == ((), ())


@pytest.mark.parametrize("command", [grant_admin, hand_over, take_over_from])
def test_command_needs_the_events_to_know_whether_the_set_is_sealed(command):
    grid = state(first_block=None)

    with pytest.raises(NotAllowed, match="known") as refusal:
        command(grid, OLD, NEW)

    assert "--first-block" in refusal.value.hint


def test_set_may_be_sealed_between_hand_over_and_take_over():
    offered = apply_all(unsealed(), hand_over(unsealed(), OLD, NEW), OLD)
    resealed = apply_all(offered, seal(offered, OLD), OLD)

    done = apply_all(resealed, take_over(resealed, NEW), NEW)

    assert check_contracts(done) == ()


def test_second_admin_of_a_sealed_set_is_granted_and_revoked():
    granted = grant(sealed(), OLD, Role.ADMIN, NEW)
    grid = apply_all(sealed(), granted, OLD)

    assert tuple(change.contract for change in granted) == GOVERNED
    assert check_contracts(grid) == ()
    revoked = revoke(grid, OLD, Role.ADMIN, NEW)
    assert tuple(change.contract for change in revoked) == GOVERNED
