# SPDX-License-Identifier: Apache-2.0
"""Tests of the changes that an administrator's commands make, even after an interrupted command.

A set consists of all contracts of one grid. To hand a set over, its admin makes the new admin
an admin too and offers the ownership of the contracts. To take the set over, the new admin accepts
the offers and revokes the old admin's roles.
"""

from dataclasses import replace

import pytest
from tests.unit.domain.contracts.sets import (
    ADDRESSES,
    MATCHER,
    META_SCHEDULER,
    NEW_ADMIN,
    OLD_ADMIN,
    OUTSIDER,
    apply_all,
    state,
    unsealed,
    with_ownership,
    with_role,
    without_role,
)

from gridstead.domain.contracts.administration import (
    grant,
    hand_over,
    revoke,
    set_constant,
    set_open,
    take_over,
)
from gridstead.domain.contracts.constants import find_constant
from gridstead.domain.contracts.deployment import NOBODY, ROLE_CONTRACTS, Role
from gridstead.errors import InvalidInput, NotAllowed

CUT = find_constant("deepsquareCut")


def calls(changes):
    """Return the changes as tuples of contract, function and arguments."""
    return [(change.contract, change.function, *change.arguments) for change in changes]


def handed_over_set(make_set=unsealed):
    """Return a set that OLD_ADMIN has handed over, and that NEW_ADMIN has not taken over yet."""
    return apply_all(make_set(), hand_over(make_set(), OLD_ADMIN, NEW_ADMIN), OLD_ADMIN)


def taken_over_set(make_set=unsealed):
    """Return a set that NEW_ADMIN has taken over."""
    grid = handed_over_set(make_set)
    return apply_all(grid, take_over(grid, NEW_ADMIN), NEW_ADMIN)


def owners(grid):
    """Return the owners of Constants and Credit."""
    return [grid.ownership("Constants").owner, grid.ownership("Credit").owner]


def check_admins(grid, contracts, expected):
    """Assert that each of the contracts has exactly this admin."""
    for contract in contracts:
        assert grid.accounts(contract, Role.ADMIN) == (expected,)


@pytest.mark.parametrize("value", [-1, 101, 2**256])
def test_value_out_of_bounds_is_refused_with_the_bounds(value):
    with pytest.raises(InvalidInput, match=f"invalid deepsquareCut {value}") as refusal:
        set_constant(state(), OLD_ADMIN, CUT, value)

    assert "from 0 to 100 percent" in refusal.value.hint


def test_constant_that_these_contracts_do_not_have_is_refused():
    grace = find_constant("settleGrace")

    with pytest.raises(InvalidInput, match="these contracts have no settleGrace"):
        set_constant(state(), OLD_ADMIN, grace, grace.minimum)


def test_account_that_is_not_the_owner_cannot_set_constants():
    with pytest.raises(NotAllowed, match=NEW_ADMIN) as refusal:
        set_constant(state(), NEW_ADMIN, CUT, 25)

    assert refusal.value.detail == f"the owner of Constants is {OLD_ADMIN}"


@pytest.mark.parametrize(
    ("value", "expected"), [(20, []), (0, [("Constants", "setDeepsquareCut", 0)])]
)
def test_constant_is_set_only_if_the_value_differs(value, expected):
    assert calls(set_constant(state(), OLD_ADMIN, CUT, value)) == expected


def test_account_that_is_not_an_admin_cannot_grant_roles():
    with pytest.raises(NotAllowed, match=f"{NEW_ADMIN} is not admin of MetaScheduler") as refusal:
        grant(state(), NEW_ADMIN, Role.MATCHER, OUTSIDER)

    assert refusal.value.detail == f"its admin is {OLD_ADMIN}"


def test_refusal_names_no_admin_if_no_event_shows_the_admin():
    grid = without_role(state(), "MetaScheduler", Role.ADMIN, OLD_ADMIN)

    with pytest.raises(NotAllowed) as refusal:
        grant(grid, NEW_ADMIN, Role.MATCHER, OUTSIDER)

    assert refusal.value.detail == "its admin is not known from events"


def test_role_is_granted_on_the_contracts_where_the_account_lacks_it():
    grid = with_role(state(), "MetaScheduler", Role.MATCHER, OUTSIDER)

    changes = grant(grid, OLD_ADMIN, Role.MATCHER, OUTSIDER)

    assert calls(changes) == [("ProviderManager", "grantRole", "METASCHEDULER_ROLE", OUTSIDER)]
    assert grant(apply_all(grid, changes, OLD_ADMIN), OLD_ADMIN, Role.MATCHER, OUTSIDER) == ()


def test_grant_of_an_existing_role_needs_no_admin():
    assert grant(state(), OUTSIDER, Role.MATCHER, MATCHER) == ()


def test_metascheduler_cannot_lose_its_own_role():
    with pytest.raises(NotAllowed, match="MetaScheduler's own role"):
        revoke(state(), OLD_ADMIN, Role.CONTRACT, META_SCHEDULER)


def test_role_of_an_unauthorised_writer_is_revoked():
    grid = with_role(unsealed(), "JobRepository", Role.CONTRACT, OUTSIDER)

    changes = revoke(grid, OLD_ADMIN, Role.CONTRACT, OUTSIDER)

    assert calls(changes) == [("JobRepository", "revokeRole", "METASCHEDULER_ROLE", OUTSIDER)]


@pytest.mark.parametrize(
    ("sender", "message"),
    [(OLD_ADMIN, f"{OLD_ADMIN} is the last admin"), (NEW_ADMIN, f"{NEW_ADMIN} is not admin")],
)
def test_role_of_the_last_admin_cannot_be_revoked(sender, message):
    with pytest.raises(NotAllowed, match=message):
        revoke(state(), sender, Role.ADMIN, OLD_ADMIN)


def test_revoking_an_admin_also_withdraws_the_ownership_offers_to_it():
    changes = revoke(handed_over_set(), OLD_ADMIN, Role.ADMIN, NEW_ADMIN)

    assert calls(changes) == [
        ("MetaScheduler", "revokeRole", "DEFAULT_ADMIN_ROLE", NEW_ADMIN),
        ("JobRepository", "revokeRole", "DEFAULT_ADMIN_ROLE", NEW_ADMIN),
        ("ProviderManager", "revokeRole", "DEFAULT_ADMIN_ROLE", NEW_ADMIN),
        ("Constants", "offerOwnership", NOBODY),
        ("Credit", "offerOwnership", NOBODY),
    ]
    grid = apply_all(handed_over_set(), changes, OLD_ADMIN)
    assert set(grid.holders) == set(unsealed().holders)
    assert grid.owners == unsealed().owners


def test_opening_an_open_set_changes_nothing():
    assert set_open(state(), OUTSIDER, is_open=True) == ()


def test_account_that_is_not_an_admin_cannot_close_a_set():
    with pytest.raises(NotAllowed):
        set_open(state(), OUTSIDER, is_open=False)


def test_admin_closes_and_opens_a_set():
    changes = set_open(state(), OLD_ADMIN, is_open=False)
    closed_set = apply_all(state(), changes, OLD_ADMIN)

    assert calls(changes) == [("MetaScheduler", "setEnableRequestNewJob", False)]
    assert set_open(closed_set, OLD_ADMIN, is_open=False) == ()
    opening_changes = set_open(closed_set, OLD_ADMIN, is_open=True)
    assert calls(opening_changes) == [("MetaScheduler", "setEnableRequestNewJob", True)]


@pytest.mark.parametrize("new_owner", [OLD_ADMIN, META_SCHEDULER, ADDRESSES["Credit"], NOBODY])
def test_new_owner_that_cannot_take_over_is_refused(new_owner):
    with pytest.raises(InvalidInput):
        hand_over(state(), OLD_ADMIN, new_owner)


def test_account_that_is_not_an_admin_cannot_hand_a_set_over():
    with pytest.raises(NotAllowed, match=f"{OUTSIDER} is not admin"):
        hand_over(state(), OUTSIDER, NEW_ADMIN)


def test_set_is_not_handed_over_if_the_ownership_of_a_contract_cannot_be_offered():
    with pytest.raises(NotAllowed, match="cannot offer Constants"):
        hand_over(with_ownership(state(), "Constants", offered_to=None), OLD_ADMIN, NEW_ADMIN)


def test_hand_over_does_not_change_the_rights_of_the_old_admin():
    grid = handed_over_set()

    for contract in ROLE_CONTRACTS:
        assert grid.holds(contract, Role.ADMIN, OLD_ADMIN)
        assert grid.holds(contract, Role.ADMIN, NEW_ADMIN)
    assert owners(grid) == [OLD_ADMIN, OLD_ADMIN]
    assert hand_over(grid, OLD_ADMIN, NEW_ADMIN) == ()


def test_contract_of_another_owner_is_not_offered():
    changes = hand_over(with_ownership(state(), "Credit", owner=OUTSIDER), OLD_ADMIN, NEW_ADMIN)

    assert ("Credit", "offerOwnership", NEW_ADMIN) not in calls(changes)
    assert ("Constants", "offerOwnership", NEW_ADMIN) in calls(changes)


def test_take_over_needs_a_hand_over():
    with pytest.raises(NotAllowed, match=f"{NEW_ADMIN} is not admin of MetaScheduler") as refusal:
        take_over(state(), NEW_ADMIN)

    assert "hand-over" in refusal.value.hint


@pytest.mark.parametrize("make_set", [unsealed, state])
def test_repeated_hand_over_completes_an_interrupted_hand_over(make_set):
    changes = hand_over(make_set(), OLD_ADMIN, NEW_ADMIN)
    for sent_count in range(len(changes)):
        grid = apply_all(make_set(), changes[:sent_count], OLD_ADMIN)
        with pytest.raises(NotAllowed):
            take_over(grid, NEW_ADMIN)

        remaining_changes = hand_over(grid, OLD_ADMIN, NEW_ADMIN)

        assert len(remaining_changes) == len(changes) - sent_count
        completed_set = apply_all(grid, remaining_changes, OLD_ADMIN)
        assert take_over(completed_set, NEW_ADMIN) == take_over(
            handed_over_set(make_set), NEW_ADMIN
        )


@pytest.mark.parametrize("make_set", [unsealed, state])
def test_repeated_take_over_completes_an_interrupted_take_over(make_set):
    changes = take_over(handed_over_set(make_set), NEW_ADMIN)
    for sent_count in range(len(changes) + 1):
        grid = apply_all(handed_over_set(make_set), changes[:sent_count], NEW_ADMIN)

        remaining_changes = take_over(grid, NEW_ADMIN)

        assert calls(remaining_changes) == calls(changes)[sent_count:]
        completed_set = apply_all(grid, remaining_changes, NEW_ADMIN)
        check_admins(completed_set, make_set().governed, NEW_ADMIN)
        assert owners(completed_set) == [NEW_ADMIN, NEW_ADMIN]
        assert take_over(completed_set, NEW_ADMIN) == ()
        assert hand_over(completed_set, OLD_ADMIN, NEW_ADMIN) == ()


@pytest.mark.parametrize(("make_set", "count"), [(unsealed, 5), (state, 4)])
def test_hand_over_and_take_over_have_a_change_per_contract(make_set, count):
    assert len(hand_over(make_set(), OLD_ADMIN, NEW_ADMIN)) == count
    assert len(take_over(handed_over_set(make_set), NEW_ADMIN)) == count


def test_second_admin_cannot_take_over_without_an_offer():
    grid = apply_all(state(), grant(state(), OLD_ADMIN, Role.ADMIN, NEW_ADMIN), OLD_ADMIN)

    with pytest.raises(NotAllowed, match="cannot take over yet") as refusal:
        take_over(grid, NEW_ADMIN)

    assert refusal.value.detail == f"Constants belongs to {OLD_ADMIN} and is not offered"


def test_old_admin_that_the_new_admin_appointed_again_remains_an_admin():
    grid = taken_over_set()
    set_with_reappointed_admin = apply_all(
        grid, grant(grid, NEW_ADMIN, Role.ADMIN, OLD_ADMIN), NEW_ADMIN
    )

    assert take_over(set_with_reappointed_admin, NEW_ADMIN) == ()


def test_contract_of_a_third_owner_does_not_prevent_a_take_over():
    grid = with_ownership(handed_over_set(), "Credit", owner=OUTSIDER, offered_to="")

    assert ("Credit", "acceptOwnership") not in calls(take_over(grid, NEW_ADMIN))


def test_first_admin_has_nothing_to_take_over():
    assert take_over(state(), OLD_ADMIN) == ()


def test_take_over_is_refused_if_the_old_admin_is_not_known():
    """The take-over revokes the old admin's roles, so it must know the old admin."""
    grid = replace(handed_over_set(), first_block=None)

    with pytest.raises(NotAllowed, match="who is not known") as refusal:
        take_over(grid, NEW_ADMIN)

    assert "--first-block" in refusal.value.hint


def test_set_that_is_handed_back_has_no_admin_except_the_first_admin():
    grid = taken_over_set()
    offered_set = apply_all(grid, hand_over(grid, NEW_ADMIN, OLD_ADMIN), NEW_ADMIN)

    handed_back_set = apply_all(offered_set, take_over(offered_set, OLD_ADMIN), OLD_ADMIN)

    check_admins(handed_back_set, ROLE_CONTRACTS, OLD_ADMIN)


def test_take_over_reports_a_third_admin_that_remains():
    offered_set = with_role(handed_over_set(), "JobRepository", Role.ADMIN, OUTSIDER, by=OLD_ADMIN)
    grid = apply_all(offered_set, take_over(offered_set, NEW_ADMIN), NEW_ADMIN)

    with pytest.raises(NotAllowed, match=f"{OUTSIDER} is still admin of JobRepository") as refusal:
        take_over(grid, NEW_ADMIN)

    assert f"`gridstead contracts revoke admin {OUTSIDER}`" in refusal.value.hint
    assert take_over(without_role(grid, "JobRepository", Role.ADMIN, OUTSIDER), NEW_ADMIN) == ()


def test_admin_whose_right_comes_from_the_new_admin_remains_after_a_take_over():
    """The new admin appointed the old admin again, and the old admin appointed OUTSIDER."""
    grid = taken_over_set()
    for contract in ROLE_CONTRACTS:
        grid = with_role(grid, contract, Role.ADMIN, OLD_ADMIN, by=NEW_ADMIN)
        grid = with_role(grid, contract, Role.ADMIN, OUTSIDER, by=OLD_ADMIN)

    assert take_over(grid, NEW_ADMIN) == ()
