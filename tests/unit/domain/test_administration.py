# SPDX-License-Identifier: Apache-2.0
"""What an administrator's wish changes; each plan is the rest of itself after a break."""

from dataclasses import replace

import pytest
from tests.unit.domain.sets import (
    ADDRESSES,
    GRID,
    IMPOSTOR,
    MATCHER,
    NEW,
    OLD,
    apply,
    given,
    owned,
    state,
    unsealed,
    without,
)

from gridstead.domain.administration import (
    CONSTANTS,
    find_constant,
    grant,
    hand_over,
    revoke,
    set_constant,
    set_open,
    take_over,
)
from gridstead.domain.deployment import NOBODY, ROLE_CONTRACTS, Role
from gridstead.errors import InvalidInput, NotAllowed

CUT = find_constant("deepsquareCut")


def calls(changes):
    return [(one.contract, one.function, *one.arguments) for one in changes]


def after(found, changes, sender):
    governed = found.governed
    for change in changes:
        found = apply(found, change, sender)
        assert all(found.accounts(contract, Role.ADMIN) for contract in governed)
    return found


def handed_over(begin=unsealed):
    return after(begin(), hand_over(begin(), OLD, NEW), OLD)


@pytest.mark.parametrize(
    "text", ["deepsquareCut", "deepsquare-cut", "DEEPSQUARECUT", " deepsquare_cut "]
)
def test_a_constant_is_found_by_name(text):
    assert find_constant(text) is CUT


def test_a_constant_that_there_is_not_is_refused_with_a_guess():
    with pytest.raises(InvalidInput, match="invalid constant 'deepsquareCat'") as refusal:
        find_constant("deepsquareCat")
    assert refusal.value.hint.startswith("Did you mean deepsquareCut? Give one of: minimumAmount, ")

    with pytest.raises(InvalidInput, match="invalid constant") as refusal:
        find_constant("x" * 1000)
    assert refusal.value.hint.startswith("Give one of: ")


@pytest.mark.parametrize("value", [-1, 101, 2**256])
def test_a_value_out_of_bounds_is_refused_with_the_bounds(value):
    with pytest.raises(InvalidInput, match=f"invalid deepsquareCut {value}") as refusal:
        set_constant(state(), OLD, CUT, value)

    assert refusal.value.hint == "Give a value from 0 to 100 percent."


def test_a_constant_that_these_contracts_do_not_have_is_refused():
    with pytest.raises(InvalidInput, match="these contracts have no settleGrace"):
        set_constant(state(), OLD, find_constant("settleGrace"), CONSTANTS[4].least)


def test_only_the_owner_sets_constants():
    with pytest.raises(NotAllowed, match=f"{NEW} may not set constants") as refusal:
        set_constant(state(), NEW, CUT, 25)

    assert refusal.value.detail == f"the owner of Constants is {OLD}"


@pytest.mark.parametrize(
    ("value", "expected"), [(20, []), (0, [("Constants", "setDeepsquareCut", 0)])]
)
def test_a_constant_is_set_where_it_differs(value, expected):
    assert calls(set_constant(state(), OLD, CUT, value)) == expected


def test_only_an_admin_grants():
    with pytest.raises(NotAllowed, match=f"{NEW} is not admin of MetaScheduler") as refusal:
        grant(state(), NEW, Role.MATCHER, IMPOSTOR)

    assert refusal.value.detail == f"its admin is {OLD}"


def test_an_admin_whom_no_event_tells_of_is_not_guessed():
    with pytest.raises(NotAllowed) as refusal:
        grant(without(state(), "MetaScheduler", Role.ADMIN, OLD), NEW, Role.MATCHER, IMPOSTOR)

    assert refusal.value.detail == "its admin is nobody that events tell of"


def test_a_role_is_granted_where_it_is_missing():
    found = given(state(), "MetaScheduler", Role.MATCHER, IMPOSTOR)

    changes = grant(found, OLD, Role.MATCHER, IMPOSTOR)

    assert calls(changes) == [("ProviderManager", "grantRole", "METASCHEDULER_ROLE", IMPOSTOR)]
    assert grant(after(found, changes, OLD), OLD, Role.MATCHER, IMPOSTOR) == ()


def test_what_is_so_already_needs_no_admin():
    assert grant(state(), IMPOSTOR, Role.MATCHER, MATCHER) == ()


def test_metascheduler_keeps_its_own_role():
    with pytest.raises(NotAllowed, match="cannot take its role from MetaScheduler"):
        revoke(state(), OLD, Role.CONTRACT, GRID)


def test_a_stranger_loses_the_role_of_a_contract():
    found = given(unsealed(), "JobRepository", Role.CONTRACT, IMPOSTOR)

    changes = revoke(found, OLD, Role.CONTRACT, IMPOSTOR)

    assert calls(changes) == [("JobRepository", "revokeRole", "METASCHEDULER_ROLE", IMPOSTOR)]


@pytest.mark.parametrize("sender", [OLD, NEW])
def test_the_last_admin_keeps_the_role(sender):
    with pytest.raises(NotAllowed, match=f"{OLD} is" if sender == OLD else f"{NEW} is not admin"):
        revoke(state(), sender, Role.ADMIN, OLD)


def test_revoking_an_admin_withdraws_what_was_offered_to_it():
    changes = revoke(handed_over(), OLD, Role.ADMIN, NEW)

    assert calls(changes) == [
        *((contract, "revokeRole", "DEFAULT_ADMIN_ROLE", NEW) for contract in ROLE_CONTRACTS),
        *((contract, "offerOwnership", NOBODY) for contract in ("Constants", "Credit")),
    ]
    assert set(after(handed_over(), changes, OLD).holders) == set(unsealed().holders)
    assert after(handed_over(), changes, OLD).owners == unsealed().owners


def test_a_set_is_closed_and_opened_by_an_admin():
    assert set_open(state(), IMPOSTOR, is_open=True) == ()
    with pytest.raises(NotAllowed):
        set_open(state(), IMPOSTOR, is_open=False)

    changes = set_open(state(), OLD, is_open=False)

    assert calls(changes) == [("MetaScheduler", "setEnableRequestNewJob", False)]
    assert set_open(after(state(), changes, OLD), OLD, is_open=False) == ()
    (opening,) = set_open(after(state(), changes, OLD), OLD, is_open=True)
    assert opening.title == "new jobs are taken"


@pytest.mark.parametrize("new_owner", [OLD, GRID, ADDRESSES["Credit"], NOBODY])
def test_who_can_never_take_over_is_refused(new_owner):
    with pytest.raises(InvalidInput):
        hand_over(state(), OLD, new_owner)


def test_only_an_admin_hands_over():
    with pytest.raises(NotAllowed, match=f"{IMPOSTOR} is not admin"):
        hand_over(state(), IMPOSTOR, NEW)


def test_contracts_that_know_no_offers_are_not_handed_over():
    with pytest.raises(NotAllowed, match="cannot offer Constants"):
        hand_over(owned(state(), "Constants", offered_to=None), OLD, NEW)


def test_handing_over_takes_nothing_from_the_present_admin():
    found = handed_over()

    assert all(
        found.holds(contract, Role.ADMIN, one) for contract in ROLE_CONTRACTS for one in (OLD, NEW)
    )
    assert [found.ownership(one).owner for one in ("Constants", "Credit")] == [OLD, OLD]
    assert hand_over(found, OLD, NEW) == ()


def test_what_somebody_else_owns_is_not_offered():
    changes = hand_over(owned(state(), "Credit", owner=IMPOSTOR), OLD, NEW)

    assert ("Credit", "offerOwnership", NEW) not in calls(changes)
    assert ("Constants", "offerOwnership", NEW) in calls(changes)


def test_nobody_takes_over_what_was_not_handed_over():
    with pytest.raises(NotAllowed, match=f"{NEW} is not admin of MetaScheduler") as refusal:
        take_over(state(), NEW)

    assert "hand-over" in refusal.value.hint


@pytest.mark.parametrize(
    ("begin", "length", "steps"),
    [(begin, end, at) for begin, end in ((unsealed, 5), (state, 4)) for at in range(end)],
)
def test_a_hand_over_that_broke_off_is_finished_by_doing_it_again(begin, length, steps):
    found = after(begin(), hand_over(begin(), OLD, NEW)[:steps], OLD)
    with pytest.raises(NotAllowed):
        take_over(found, NEW)

    rest = hand_over(found, OLD, NEW)

    assert len(rest) == length - steps
    assert take_over(after(found, rest, OLD), NEW) == take_over(handed_over(begin), NEW)


@pytest.mark.parametrize(
    ("begin", "steps"),
    [(begin, at) for begin, end in ((unsealed, 6), (state, 5)) for at in range(end)],
)
def test_a_take_over_that_broke_off_is_finished_by_doing_it_again(begin, steps):
    whole = take_over(handed_over(begin), NEW)
    found = after(handed_over(begin), whole[:steps], NEW)

    rest = take_over(found, NEW)

    assert calls(rest) == calls(whole)[steps:]
    done = after(found, rest, NEW)
    assert all(done.accounts(contract, Role.ADMIN) == (NEW,) for contract in begin().governed)
    assert [done.ownership(one).owner for one in ("Constants", "Credit")] == [NEW, NEW]
    assert take_over(done, NEW) == ()
    assert hand_over(done, OLD, NEW) == ()


def test_an_admin_beside_the_present_one_cannot_take_over():
    found = after(state(), grant(state(), OLD, Role.ADMIN, NEW), OLD)

    with pytest.raises(NotAllowed, match="cannot take over yet") as refusal:
        take_over(found, NEW)

    assert refusal.value.detail == f"Constants belongs to {OLD} and is not offered"


def test_an_old_admin_whom_the_new_one_took_back_stays():
    done = after(handed_over(), take_over(handed_over(), NEW), NEW)
    back = after(done, grant(done, NEW, Role.ADMIN, OLD), NEW)

    assert take_over(back, NEW) == ()


def test_what_a_third_party_owns_does_not_keep_anybody_from_taking_over():
    found = owned(handed_over(), "Credit", owner=IMPOSTOR, offered_to="")

    assert ("Credit", "acceptOwnership") not in calls(take_over(found, NEW))


def test_the_first_admin_has_nobody_to_take_over_from():
    assert take_over(replace(state(), owners=state().owners), OLD) == ()


def test_nobody_takes_over_while_it_is_not_known_from_whom():
    """Else the old administrator would stay in power and nobody would know."""
    with pytest.raises(NotAllowed, match="who is not known") as refusal:
        take_over(replace(handed_over(), first_block=None), NEW)

    assert "--first-block" in refusal.value.hint


def test_who_gets_its_grid_back_takes_the_role_from_whom_it_had_given_it():
    there = after(handed_over(), take_over(handed_over(), NEW), NEW)
    offered = after(there, hand_over(there, NEW, OLD), NEW)

    done = after(offered, take_over(offered, OLD), OLD)

    assert all(done.accounts(contract, Role.ADMIN) == (OLD,) for contract in ROLE_CONTRACTS)


def test_an_admin_that_stays_beside_the_new_one_is_told_in_the_end():
    found = given(handed_over(), "JobRepository", Role.ADMIN, IMPOSTOR, by=OLD)
    done = after(found, take_over(found, NEW), NEW)

    with pytest.raises(NotAllowed, match=f"{IMPOSTOR} is still admin of JobRepository") as refusal:
        take_over(done, NEW)

    assert refusal.value.hint.startswith(f"Run `gridstead contracts revoke admin {IMPOSTOR}`")
    assert take_over(without(done, "JobRepository", Role.ADMIN, IMPOSTOR), NEW) == ()


def test_an_admin_whom_the_new_ones_own_admin_made_stays():
    done = after(handed_over(), take_over(handed_over(), NEW), NEW)
    for contract in ROLE_CONTRACTS:
        done = given(
            given(done, contract, Role.ADMIN, OLD, by=NEW), contract, Role.ADMIN, IMPOSTOR, by=OLD
        )

    assert take_over(done, NEW) == ()
