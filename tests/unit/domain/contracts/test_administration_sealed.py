# SPDX-License-Identifier: Apache-2.0
"""Tests of the sealing of JobRepository, and of the administration of a set that is sealed.

A set consists of all contracts of one grid. A set is sealed if contract JobRepository has no
admin. Nobody can then allow another account to write to JobRepository.
"""

import pytest
from tests.unit.domain.contracts.sets import (
    META_SCHEDULER,
    NEW_ADMIN,
    OLD_ADMIN,
    OUTSIDER,
    apply_all,
    state,
    unsealed,
    with_role,
    without_role,
)

from gridstead.domain.contracts.administration import grant, hand_over, revoke, seal, take_over
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.contracts.deployment import Role
from gridstead.errors import NotAllowed

# The contracts that have an admin after JobRepository is sealed.
GOVERNED = ("MetaScheduler", "ProviderManager")


def grant_admin(grid, sender, account):
    return grant(grid, sender, Role.ADMIN, account)


def take_over_from(grid, _old_admin, new_admin):
    return take_over(grid, new_admin)


def sealed():
    """Return a set that the command `seal` has sealed."""
    return apply_all(unsealed(), seal(unsealed(), OLD_ADMIN), OLD_ADMIN)


def test_sealing_revokes_other_admins_before_the_sender_renounces_its_role():
    grid = with_role(unsealed(), "JobRepository", Role.ADMIN, NEW_ADMIN)

    changes = seal(grid, OLD_ADMIN)

    revocation, renunciation = changes
    assert (revocation.function, revocation.arguments[1]) == ("revokeRole", NEW_ADMIN)
    assert (renunciation.function, renunciation.arguments[1]) == ("renounceRole", OLD_ADMIN)
    assert revocation.contract == "JobRepository"
    assert renunciation.contract == "JobRepository"
    assert check_contracts(apply_all(grid, changes, OLD_ADMIN)) == ()


def test_repeated_seal_completes_an_interrupted_seal():
    grid = with_role(unsealed(), "JobRepository", Role.ADMIN, NEW_ADMIN)
    changes = seal(grid, OLD_ADMIN)

    assert seal(apply_all(grid, changes[:1], OLD_ADMIN), OLD_ADMIN) == changes[1:]
    assert seal(apply_all(grid, changes, OLD_ADMIN), OLD_ADMIN) == ()


def test_account_that_is_not_an_admin_cannot_seal_the_contract():
    with pytest.raises(NotAllowed, match=f"{NEW_ADMIN} is not admin of JobRepository"):
        seal(unsealed(), NEW_ADMIN)


@pytest.mark.parametrize(
    "grid",
    [
        with_role(unsealed(), "JobRepository", Role.CONTRACT, OUTSIDER),
        without_role(unsealed(), "JobRepository", Role.CONTRACT, META_SCHEDULER),
        unsealed(first_block=None),
    ],
)
def test_contract_with_wrong_or_unknown_writers_is_not_sealed(grid):
    with pytest.raises(NotAllowed, match="cannot seal JobRepository"):
        seal(grid, OLD_ADMIN)


def test_role_of_an_unauthorised_writer_of_a_sealed_contract_cannot_be_revoked():
    grid = with_role(sealed(), "JobRepository", Role.CONTRACT, OUTSIDER)

    with pytest.raises(NotAllowed, match=f"{OLD_ADMIN} is not admin of JobRepository"):
        revoke(grid, OLD_ADMIN, Role.CONTRACT, OUTSIDER)
    assert seal(grid, OLD_ADMIN) == ()


def test_hand_over_of_a_sealed_set_changes_all_contracts_except_the_sealed_contract():
    offered_set = apply_all(sealed(), hand_over(sealed(), OLD_ADMIN, NEW_ADMIN), OLD_ADMIN)

    grid = apply_all(offered_set, take_over(offered_set, NEW_ADMIN), NEW_ADMIN)

    for contract in GOVERNED:
        assert grid.accounts(contract, Role.ADMIN) == (NEW_ADMIN,)
    assert grid.is_sealed
    assert check_contracts(grid) == ()
    assert hand_over(grid, OLD_ADMIN, NEW_ADMIN) == ()
    assert take_over(grid, NEW_ADMIN) == ()


@pytest.mark.parametrize("command", [grant_admin, hand_over, take_over_from])
def test_command_needs_the_events_to_know_whether_the_set_is_sealed(command):
    grid = state(first_block=None)

    with pytest.raises(NotAllowed, match="known") as refusal:
        command(grid, OLD_ADMIN, NEW_ADMIN)

    assert "--first-block" in refusal.value.hint


def test_set_may_be_sealed_between_hand_over_and_take_over():
    offered_set = apply_all(unsealed(), hand_over(unsealed(), OLD_ADMIN, NEW_ADMIN), OLD_ADMIN)
    sealed_set = apply_all(offered_set, seal(offered_set, OLD_ADMIN), OLD_ADMIN)

    grid = apply_all(sealed_set, take_over(sealed_set, NEW_ADMIN), NEW_ADMIN)

    assert check_contracts(grid) == ()


def test_second_admin_of_a_sealed_set_can_be_appointed_and_removed():
    grants = grant(sealed(), OLD_ADMIN, Role.ADMIN, NEW_ADMIN)
    grid = apply_all(sealed(), grants, OLD_ADMIN)

    assert contracts_of(grants) == GOVERNED
    assert check_contracts(grid) == ()
    revocations = revoke(grid, OLD_ADMIN, Role.ADMIN, NEW_ADMIN)
    assert contracts_of(revocations) == GOVERNED


def contracts_of(changes):
    return tuple(change.contract for change in changes)
