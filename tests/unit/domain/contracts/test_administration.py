# SPDX-License-Identifier: Apache-2.0
"""The changes that an administrator's command makes. A repeated command makes the rest of them."""

import pytest
from tests.unit.domain.contracts.sets import (
    ADDRESSES,
    GRID,
    MATCHER,
    NEW,
    OLD,
    OUTSIDER,
    apply_all,
    state,
    unsealed,
    with_ownership,
    with_role,
    without_role,
)

from gridstead.domain.contracts.administration import (
    CONSTANTS,
    find_constant,
    grant,
    hand_over,
    revoke,
    set_constant,
    set_open,
    take_over,
)
from gridstead.domain.contracts.deployment import NOBODY, ROLE_CONTRACTS, Role
from gridstead.errors import InvalidInput, NotAllowed

CUT = find_constant("deepsquareCut")


def calls(changes):
    return [(change.contract, change.function, *change.arguments) for change in changes]


def handed_over(begin=unsealed):
    return apply_all(begin(), hand_over(begin(), OLD, NEW), OLD)


def taken_over(begin=unsealed):
    offered = handed_over(begin)
    return apply_all(offered, take_over(offered, NEW), NEW)


def owners(grid):
    return [grid.ownership(contract).owner for contract in ("Constants", "Credit")]


@pytest.mark.parametrize(
    "text", ["deepsquareCut", "deepsquare-cut", "DEEPSQUARECUT", " deepsquare_cut "]
)
def test_constant_is_found_by_name(text):
    assert find_constant(text) is CUT


def test_unknown_constant_is_refused_with_the_closest_name():
    with pytest.raises(InvalidInput, match="invalid constant 'deepsquareCat'") as refusal:
        find_constant("deepsquareCat")

    assert "Did you mean deepsquareCut?" in refusal.value.hint
    assert "minimumAmount" in refusal.value.hint


def test_unknown_constant_without_a_close_name_is_refused_with_all_names():
    with pytest.raises(InvalidInput, match="invalid constant") as refusal:
        find_constant("x" * 1000)

    assert "Did you mean" not in refusal.value.hint
    assert [constant.name in refusal.value.hint for constant in CONSTANTS] == [True] * 8


@pytest.mark.parametrize("value", [-1, 101, 2**256])
def test_value_out_of_bounds_is_refused_with_the_bounds(value):
    with pytest.raises(InvalidInput, match=f"invalid deepsquareCut {value}") as refusal:
        set_constant(state(), OLD, CUT, value)

    assert "from 0 to 100 percent" in refusal.value.hint


def test_constant_that_these_contracts_do_not_have_is_refused():
    with pytest.raises(InvalidInput, match="these contracts have no settleGrace"):
        set_constant(state(), OLD, find_constant("settleGrace"), CONSTANTS[4].least)


def test_only_the_owner_sets_constants():
    with pytest.raises(NotAllowed, match=NEW) as refusal:
        set_constant(state(), NEW, CUT, 25)

    assert refusal.value.detail == f"the owner of Constants is {OLD}"


@pytest.mark.parametrize(
    ("value", "expected"), [(20, []), (0, [("Constants", "setDeepsquareCut", 0)])]
)
def test_constant_is_set_only_if_the_value_differs(value, expected):
    assert calls(set_constant(state(), OLD, CUT, value)) == expected


def test_only_an_admin_grants():
    with pytest.raises(NotAllowed, match=f"{NEW} is not admin of MetaScheduler") as refusal:
        grant(state(), NEW, Role.MATCHER, OUTSIDER)

    assert refusal.value.detail == f"its admin is {OLD}"


def test_admin_that_no_event_shows_is_not_guessed():
    grid = without_role(state(), "MetaScheduler", Role.ADMIN, OLD)

    with pytest.raises(NotAllowed) as refusal:
        grant(grid, NEW, Role.MATCHER, OUTSIDER)

    assert refusal.value.detail == "its admin is not known from events"


def test_role_is_granted_where_it_is_missing():
    grid = with_role(state(), "MetaScheduler", Role.MATCHER, OUTSIDER)

    changes = grant(grid, OLD, Role.MATCHER, OUTSIDER)

    assert calls(changes) == [("ProviderManager", "grantRole", "METASCHEDULER_ROLE", OUTSIDER)]
    assert grant(apply_all(grid, changes, OLD), OLD, Role.MATCHER, OUTSIDER) == ()


def test_role_that_is_already_granted_needs_no_admin():
    assert grant(state(), OUTSIDER, Role.MATCHER, MATCHER) == ()


def test_metascheduler_cannot_lose_its_own_role():
    with pytest.raises(NotAllowed, match="MetaScheduler's own role"):
        revoke(state(), OLD, Role.CONTRACT, GRID)


def test_unauthorised_writer_loses_its_role():
    grid = with_role(unsealed(), "JobRepository", Role.CONTRACT, OUTSIDER)

    changes = revoke(grid, OLD, Role.CONTRACT, OUTSIDER)

    assert calls(changes) == [("JobRepository", "revokeRole", "METASCHEDULER_ROLE", OUTSIDER)]


@pytest.mark.parametrize(
    ("sender", "message"), [(OLD, f"{OLD} is the last admin"), (NEW, f"{NEW} is not admin")]
)
def test_role_of_the_last_admin_cannot_be_revoked(sender, message):
    with pytest.raises(NotAllowed, match=message):
        revoke(state(), sender, Role.ADMIN, OLD)


def test_revoking_an_admin_withdraws_the_offers_to_it():
    changes = revoke(handed_over(), OLD, Role.ADMIN, NEW)

    assert calls(changes) == [
        *((contract, "revokeRole", "DEFAULT_ADMIN_ROLE", NEW) for contract in ROLE_CONTRACTS),
        *((contract, "offerOwnership", NOBODY) for contract in ("Constants", "Credit")),
    ]
    revoked = apply_all(handed_over(), changes, OLD)
    assert set(revoked.holders) == set(unsealed().holders)
    assert revoked.owners == unsealed().owners


def test_opening_an_open_set_changes_nothing():
    assert set_open(state(), OUTSIDER, is_open=True) == ()


def test_only_an_admin_closes_a_set():
    with pytest.raises(NotAllowed):
        set_open(state(), OUTSIDER, is_open=False)


def test_admin_closes_and_opens_a_set():
    changes = set_open(state(), OLD, is_open=False)
    closed = apply_all(state(), changes, OLD)

    assert calls(changes) == [("MetaScheduler", "setEnableRequestNewJob", False)]
    assert set_open(closed, OLD, is_open=False) == ()
    opening = set_open(closed, OLD, is_open=True)
    assert calls(opening) == [("MetaScheduler", "setEnableRequestNewJob", True)]


@pytest.mark.parametrize("new_owner", [OLD, GRID, ADDRESSES["Credit"], NOBODY])
def test_new_owner_that_cannot_take_over_is_refused(new_owner):
    with pytest.raises(InvalidInput):
        hand_over(state(), OLD, new_owner)


def test_only_an_admin_hands_over():
    with pytest.raises(NotAllowed, match=f"{OUTSIDER} is not admin"):
        hand_over(state(), OUTSIDER, NEW)


def test_contracts_without_offers_cannot_be_handed_over():
    with pytest.raises(NotAllowed, match="cannot offer Constants"):
        hand_over(with_ownership(state(), "Constants", offered_to=None), OLD, NEW)


def test_hand_over_does_not_change_the_rights_of_the_old_admin():
    grid = handed_over()

    for contract in ROLE_CONTRACTS:
        assert grid.holds(contract, Role.ADMIN, OLD)
        assert grid.holds(contract, Role.ADMIN, NEW)
    assert owners(grid) == [OLD, OLD]
    assert hand_over(grid, OLD, NEW) == ()


def test_contract_of_another_owner_is_not_offered():
    changes = hand_over(with_ownership(state(), "Credit", owner=OUTSIDER), OLD, NEW)

    assert ("Credit", "offerOwnership", NEW) not in calls(changes)
    assert ("Constants", "offerOwnership", NEW) in calls(changes)


def test_take_over_needs_a_hand_over():
    with pytest.raises(NotAllowed, match=f"{NEW} is not admin of MetaScheduler") as refusal:
        take_over(state(), NEW)

    assert "hand-over" in refusal.value.hint


@pytest.mark.parametrize(
    ("begin", "length", "steps"),
    [(unsealed, 5, i) for i in range(5)] + [(state, 4, i) for i in range(4)],
)
def test_interrupted_hand_over_is_completed_by_repeating_it(begin, length, steps):
    grid = apply_all(begin(), hand_over(begin(), OLD, NEW)[:steps], OLD)
    with pytest.raises(NotAllowed):
        take_over(grid, NEW)

    rest = hand_over(grid, OLD, NEW)

    assert len(rest) == length - steps
    assert take_over(apply_all(grid, rest, OLD), NEW) == take_over(handed_over(begin), NEW)


@pytest.mark.parametrize(
    ("begin", "steps"), [(unsealed, i) for i in range(6)] + [(state, i) for i in range(5)]
)
def test_interrupted_take_over_is_completed_by_repeating_it(begin, steps):
    changes = take_over(handed_over(begin), NEW)
    grid = apply_all(handed_over(begin), changes[:steps], NEW)

    rest = take_over(grid, NEW)

    assert calls(rest) == calls(changes)[steps:]
    done = apply_all(grid, rest, NEW)
    assert {done.accounts(contract, Role.ADMIN) for contract in begin().governed} == {(NEW,)}
    assert owners(done) == [NEW, NEW]
    assert take_over(done, NEW) == ()
    assert hand_over(done, OLD, NEW) == ()


def test_second_admin_cannot_take_over_without_an_offer():
    grid = apply_all(state(), grant(state(), OLD, Role.ADMIN, NEW), OLD)

    with pytest.raises(NotAllowed, match="cannot take over yet") as refusal:
        take_over(grid, NEW)

    assert refusal.value.detail == f"Constants belongs to {OLD} and is not offered"


def test_old_admin_that_the_new_admin_appointed_again_remains():
    done = taken_over()
    reappointed = apply_all(done, grant(done, NEW, Role.ADMIN, OLD), NEW)

    assert take_over(reappointed, NEW) == ()


def test_contract_of_a_third_owner_does_not_prevent_a_take_over():
    grid = with_ownership(handed_over(), "Credit", owner=OUTSIDER, offered_to="")

    assert ("Credit", "acceptOwnership") not in calls(take_over(grid, NEW))


def test_first_admin_has_nothing_to_take_over():
    assert take_over(state(), OLD) == ()


def test_take_over_is_refused_if_the_old_admin_is_not_known():
    """Otherwise the old admin would keep its role unnoticed."""
    with pytest.raises(NotAllowed, match="who is not known") as refusal:
        take_over(handed_over(lambda: unsealed(first_block=None)), NEW)

    assert "--first-block" in refusal.value.hint


def test_set_that_is_handed_back_belongs_to_the_first_admin_only():
    done = taken_over()
    offered = apply_all(done, hand_over(done, NEW, OLD), NEW)

    back = apply_all(offered, take_over(offered, OLD), OLD)

    assert {back.accounts(contract, Role.ADMIN) for contract in ROLE_CONTRACTS} == {(OLD,)}


def test_third_admin_is_reported_after_a_take_over():
    grid = with_role(handed_over(), "JobRepository", Role.ADMIN, OUTSIDER, by=OLD)
    done = apply_all(grid, take_over(grid, NEW), NEW)

    with pytest.raises(NotAllowed, match=f"{OUTSIDER} is still admin of JobRepository") as refusal:
        take_over(done, NEW)

    assert f"`gridstead contracts revoke admin {OUTSIDER}`" in refusal.value.hint
    assert take_over(without_role(done, "JobRepository", Role.ADMIN, OUTSIDER), NEW) == ()


def test_admin_that_was_appointed_through_the_new_admin_remains():
    done = taken_over()
    for contract in ROLE_CONTRACTS:
        done = with_role(done, contract, Role.ADMIN, OLD, by=NEW)
        done = with_role(done, contract, Role.ADMIN, OUTSIDER, by=OLD)

    assert take_over(done, NEW) == ()
