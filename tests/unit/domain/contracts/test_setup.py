# SPDX-License-Identifier: Apache-2.0
"""The changes that set up a new set of contracts."""

from dataclasses import replace

import pytest
from tests.unit.domain.contracts.sets import (
    ADDRESSES,
    MATCHER,
    META_SCHEDULER,
    OLD_ADMIN,
    OUTSIDER,
    apply_all,
    state,
    unsealed,
    with_ownership,
    with_role,
)

from gridstead.domain.contracts.block_time import BlockTime
from gridstead.domain.contracts.deployment import SEALED, Role
from gridstead.domain.contracts.setup import new_set, set_up
from gridstead.errors import InvalidInput, NotAllowed

ACCOUNTS = frozenset([OLD_ADMIN, META_SCHEDULER])


def created():
    """Return the set after the creation of its contracts."""
    return new_set(1, 10, ADDRESSES, OLD_ADMIN)


def functions(changes):
    return [change.function for change in changes]


def test_new_set_is_connected_and_sealed_last():
    changes = set_up(created(), OLD_ADMIN, MATCHER, claim_blocks=60)

    assert functions(changes) == [
        "transferOwnership",
        "grantRole",
        "grantRole",
        "grantRole",
        "grantRole",
        "setClaimJobTimeout",
        "renounceRole",
    ]
    assert changes[0].arguments == (META_SCHEDULER,)
    assert changes[-1].title == SEALED


def test_complete_set_needs_no_change():
    grid = state(repository_accounts=ACCOUNTS, constants={"claimJobTimeout": 60})

    assert set_up(grid, OLD_ADMIN, MATCHER, claim_blocks=50) == ()


def test_set_up_is_complete_after_its_changes():
    owned = with_ownership(created(), "ProviderJobQueues", owner=META_SCHEDULER)
    grid = replace(owned, constants={"claimJobTimeout": 60}, repository_accounts=ACCOUNTS)

    changes = set_up(grid, OLD_ADMIN, MATCHER, claim_blocks=60)

    after = apply_all(grid, changes, OLD_ADMIN)
    assert after.is_sealed
    assert set_up(after, OLD_ADMIN, MATCHER, claim_blocks=60) == ()


@pytest.mark.parametrize("claim_blocks", [None, 10])
def test_initial_claim_timeout_is_kept_if_it_is_right_or_unknown(claim_blocks):
    changes = set_up(created(), OLD_ADMIN, MATCHER, claim_blocks=claim_blocks)

    assert "setClaimJobTimeout" not in functions(changes)


def test_claim_timeout_of_an_administrator_is_kept():
    grid = unsealed(constants={"claimJobTimeout": 300}, repository_accounts=ACCOUNTS)

    changes = set_up(grid, OLD_ADMIN, MATCHER, claim_blocks=60)

    assert functions(changes) == ["renounceRole"]


def test_claim_timeout_out_of_bounds_is_refused():
    with pytest.raises(InvalidInput, match="invalid claimJobTimeout 1000001"):
        set_up(created(), OLD_ADMIN, MATCHER, claim_blocks=10**6 + 1)


@pytest.mark.parametrize(
    "grid",
    [
        unsealed(repository_accounts=ACCOUNTS | {OUTSIDER}),
        unsealed(repository_accounts=ACCOUNTS, first_block=None),
    ],
    ids=["another account had a role", "events are not known"],
)
def test_set_is_not_sealed(grid):
    assert set_up(grid, OLD_ADMIN, MATCHER, claim_blocks=None) == ()


def test_missing_role_that_the_sender_cannot_grant_is_refused():
    with pytest.raises(NotAllowed, match=f"{OUTSIDER} is not admin of"):
        set_up(created(), OUTSIDER, MATCHER, claim_blocks=None)


def test_role_that_an_account_has_already_is_not_granted_again():
    grid = with_role(created(), "MetaScheduler", Role.MATCHER, MATCHER)

    changes = set_up(grid, OLD_ADMIN, MATCHER, claim_blocks=None)

    assert functions(changes).count("grantRole") == 3


@pytest.mark.parametrize(
    ("blocks", "seconds", "expected_blocks"),
    [(1, 1, 120), (1000, 12_000, 10), (1000, 2000, 60), (1000, 7000, 18), (1000, 250, 480)],
)
def test_blocks_of_a_duration_are_rounded_up(blocks, seconds, expected_blocks):
    block_time = BlockTime(blocks=blocks, seconds=seconds)

    assert block_time.blocks_ceil(120) == expected_blocks
    assert block_time.seconds_floor(expected_blocks) + 1 >= 120


def test_state_has_the_claim_timeout_in_seconds():
    block_time = BlockTime(blocks=1000, seconds=12_000)
    grid = state(constants={"claimJobTimeout": 10}, block_time=block_time)

    assert grid.claim_timeout_s == 120
    assert replace(grid, block_time=None).claim_timeout_s is None
