# SPDX-License-Identifier: Apache-2.0
"""What is said of a set of contracts."""

from dataclasses import replace

import pytest
from tests.unit.domain.sets import ADDRESSES, GRID, MATCHER, NEW, OLD, STRANGER, given, owned, state, unsealed, without

from gridstead.domain.deployment import Code, Escrow, Role, parse_role
from gridstead.domain.verdict import Kind, exit_code, judge
from gridstead.errors import InvalidInput


def placed(code, contract="Credit"):
    return tuple(replace(one, code=code) if one.contract == contract else one for one in state().placed)


def plain(**changed):
    return state(version="", placed=tuple(replace(one, code=Code.FOREIGN) for one in state().placed), **changed)


def test_a_whole_set_leaves_nothing_to_say():
    assert judge(state(), expected=ADDRESSES) == ()
    assert exit_code(()) == 0


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        (
            state(escrow=Escrow(balance=104, locked=100, fees=5, jobs=3, hot_jobs=1)),
            Kind.ESCROW,
            "wei of credits less",
        ),
        (
            given(state(), "JobRepository", Role.CONTRACT, STRANGER),
            Kind.POWER,
            "may write to JobRepository",
        ),
        (given(state(), "ProviderManager", Role.CONTRACT, STRANGER), Kind.POWER, "as if it were MetaScheduler"),
        (owned(state(), "ProviderJobQueues", owner=STRANGER), Kind.POWER, f"ProviderJobQueues belongs to {STRANGER}"),
        (state(placed=placed(Code.FOREIGN)), Kind.CODE, "Credit at 0x0000000000000000000000000000000000000006 has not"),
        (state(placed=placed(Code.MISSING, "MetaScheduler")), Kind.WIRING, "there is no contract MetaScheduler"),
        (state(queues_jobs=STRANGER), Kind.WIRING, f"ProviderJobQueues reads JobRepository {STRANGER}"),
        (without(state(), "JobRepository", Role.CONTRACT, GRID), Kind.WIRING, "MetaScheduler has not its role"),
        (without(state(), "MetaScheduler", Role.ADMIN, OLD), Kind.WIRING, "nobody is admin of MetaScheduler"),
        (without(state(), "ProviderManager", Role.MATCHER, MATCHER), Kind.WIRING, "nobody is matcher of ProviderM"),
        (owned(state(), "ProviderJobQueues", owner=OLD), Kind.WIRING, f"ProviderJobQueues belongs to {OLD} instead"),
        (state(placed=placed(Code.UNKNOWN)), Kind.NOTE, "could not be compared"),
        (plain(fees=None, queues_jobs=None), Kind.NOTE, "plain DeepSquare 1.2"),
        (unsealed(), Kind.NOTE, f"{OLD} can name a second writer to JobRepository"),
        (state(first_block=None), Kind.NOTE, "more accounts may hold roles than are shown"),
        (given(state(), "MetaScheduler", Role.ADMIN, NEW), Kind.NOTE, "the contracts differ in who is admin"),
        (owned(state(), "Credit", owner="0x" + "0" * 40), Kind.NOTE, "Credit has no owner"),
        (owned(state(), "Constants", owner=STRANGER), Kind.NOTE, f"Constants belongs to {STRANGER}, who is not admin"),
        (owned(state(), "Constants", offered_to=NEW), Kind.NOTE, f"Constants is offered to {NEW}"),
        (state(accepts_jobs=False), Kind.NOTE, "the set is closed"),
        (state(escrow=Escrow(balance=106, locked=100, fees=5, jobs=3, hot_jobs=1)), Kind.NOTE, "1 wei of credits that"),
    ],
)
def test_what_is_not_right_is_said_with_its_kind(found, kind, words):
    findings = judge(found)

    assert [one.kind for one in findings if words in one.text] == [kind]
    assert exit_code(findings) == kind.value
    assert findings[0].kind is kind


def test_a_set_that_is_not_sealed_is_content_with_that_and_tells_how():
    findings = judge(unsealed(), expected=ADDRESSES)

    assert [(one.kind, one.hint) for one in findings] == [(Kind.NOTE, "Run `gridstead contracts seal`.")]
    assert exit_code(findings) == 0


@pytest.mark.parametrize(
    ("found", "contract", "hint"),
    [
        (unsealed(), "JobRepository", f"Run `gridstead contracts revoke contract {STRANGER}` at once."),
        (unsealed(first_block=None), "JobRepository", f"Run `gridstead contracts revoke contract {STRANGER}` at once."),
        (state(), "ProviderManager", f"Run `gridstead contracts revoke contract {STRANGER}` at once."),
        (state(), "JobRepository", "Close the set at once, deploy a new one, and find out how the account came to its"),
    ],
)
def test_a_stranger_with_power_is_ended_by_who_can(found, contract, hint):
    """Of a sealed JobRepository nobody can take a role any more."""
    finding = judge(given(found, contract, Role.CONTRACT, STRANGER))[0]

    assert (finding.kind, finding.hint.startswith(hint)) == (Kind.POWER, True)


def test_an_address_that_is_not_the_files_is_told():
    (finding,) = judge(state(), expected=ADDRESSES | {"Credit": STRANGER})

    assert finding.kind is Kind.WIRING
    assert finding.text == f"MetaScheduler uses Credit {ADDRESSES['Credit']}, the deployment file names {STRANGER}"


def test_an_escrow_that_nobody_counted_is_not_judged():
    assert judge(state(escrow=None)) == ()


def test_a_set_without_events_that_may_be_sealed_differs_in_nothing():
    (finding,) = judge(state(first_block=None))

    assert finding.text.startswith("events could not be searched")


def test_roles_that_no_event_tells_of_are_not_said_to_be_nobodys():
    found = without(state(first_block=None), "MetaScheduler", Role.ADMIN, OLD)

    assert {one.kind for one in judge(found)} == {Kind.NOTE}


def test_the_gravest_comes_first_and_gives_the_exit_code():
    found = given(state(accepts_jobs=False, placed=placed(Code.FOREIGN)), "JobRepository", Role.CONTRACT, STRANGER)

    findings = judge(found)

    assert [one.kind for one in findings] == [Kind.POWER, Kind.CODE, Kind.NOTE]
    assert exit_code(findings) == 77


@pytest.mark.parametrize("text", ["admin", " Admin ", "ADMIN"])
def test_a_role_has_a_name(text):
    assert parse_role(text) is Role.ADMIN


@pytest.mark.parametrize("text", ["minter", "", "contract", "x" * 500])
def test_a_role_that_nobody_can_be_given_is_refused_with_those_that_can(text):
    with pytest.raises(InvalidInput, match="invalid role") as refusal:
        parse_role(text)

    assert "admin, matcher" in refusal.value.hint
    assert len(refusal.value.message) < 120


def test_the_role_of_a_contract_may_be_taken():
    assert parse_role("contract", Role) is Role.CONTRACT
