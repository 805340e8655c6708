# SPDX-License-Identifier: Apache-2.0
"""What is said of a set of contracts."""

from dataclasses import replace

import pytest
from tests.unit.domain.sets import (
    ADDRESSES,
    GRID,
    IMPOSTOR,
    MATCHER,
    NEW,
    OLD,
    given,
    owned,
    state,
    unsealed,
    without,
)

from gridstead.domain.contract_checks import FindingKind, check_contracts, exit_code
from gridstead.domain.deployment import Code, Escrow, Role, parse_role
from gridstead.errors import InvalidInput


def placed(code, contract="Credit"):
    return tuple(
        replace(one, code=code) if one.contract == contract else one for one in state().placed
    )


def plain(**changed):
    return state(
        version="",
        placed=tuple(replace(one, code=Code.FOREIGN) for one in state().placed),
        **changed,
    )


def test_a_whole_set_leaves_nothing_to_say():
    assert check_contracts(state(), expected=ADDRESSES) == ()
    assert exit_code(()) == 0


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        (
            state(escrow=Escrow(balance=104, escrowed=100, fees=5, jobs=3, hot_jobs=1)),
            FindingKind.ESCROW,
            "wei of credits less",
        ),
        (
            given(state(), "JobRepository", Role.CONTRACT, IMPOSTOR),
            FindingKind.POWER,
            "may write to JobRepository",
        ),
        (
            given(state(), "ProviderManager", Role.CONTRACT, IMPOSTOR),
            FindingKind.POWER,
            "as if it were MetaScheduler",
        ),
        (
            owned(state(), "ProviderJobQueues", owner=IMPOSTOR),
            FindingKind.POWER,
            f"ProviderJobQueues belongs to {IMPOSTOR}",
        ),
        (
            state(placed=placed(Code.FOREIGN)),
            FindingKind.CODE,
            "Credit at 0x0000000000000000000000000000000000000006 has not",
        ),
        (
            state(placed=placed(Code.MISSING, "MetaScheduler")),
            FindingKind.WIRING,
            "there is no contract MetaScheduler",
        ),
        (
            state(queues_jobs=IMPOSTOR),
            FindingKind.WIRING,
            f"ProviderJobQueues reads JobRepository {IMPOSTOR}",
        ),
        (
            without(state(), "JobRepository", Role.CONTRACT, GRID),
            FindingKind.WIRING,
            "MetaScheduler has not its role",
        ),
        (
            without(state(), "MetaScheduler", Role.ADMIN, OLD),
            FindingKind.WIRING,
            "nobody is admin of MetaScheduler",
        ),
        (
            without(state(), "ProviderManager", Role.MATCHER, MATCHER),
            FindingKind.WIRING,
            "nobody is matcher of ProviderM",
        ),
        (
            owned(state(), "ProviderJobQueues", owner=OLD),
            FindingKind.WIRING,
            f"ProviderJobQueues belongs to {OLD} instead",
        ),
        (state(placed=placed(Code.UNKNOWN)), FindingKind.NOTE, "could not be compared"),
        (plain(fees=None, queues_jobs=None), FindingKind.NOTE, "plain DeepSquare 1.2"),
        (unsealed(), FindingKind.NOTE, f"{OLD} can name a second writer to JobRepository"),
        (state(first_block=None), FindingKind.NOTE, "more accounts may hold roles than are shown"),
        (
            given(state(), "MetaScheduler", Role.ADMIN, NEW),
            FindingKind.NOTE,
            "the contracts differ in who is admin",
        ),
        (owned(state(), "Credit", owner="0x" + "0" * 40), FindingKind.NOTE, "Credit has no owner"),
        (
            owned(state(), "Constants", owner=IMPOSTOR),
            FindingKind.NOTE,
            f"Constants belongs to {IMPOSTOR}, who is not admin",
        ),
        (
            owned(state(), "Constants", offered_to=NEW),
            FindingKind.NOTE,
            f"Constants is offered to {NEW}",
        ),
        (state(accepts_jobs=False), FindingKind.NOTE, "the set is closed"),
        (
            state(escrow=Escrow(balance=106, escrowed=100, fees=5, jobs=3, hot_jobs=1)),
            FindingKind.NOTE,
            "1 wei of credits that",
        ),
    ],
)
def test_what_is_not_right_is_said_with_its_kind(found, kind, words):
    findings = check_contracts(found)

    assert [one.kind for one in findings if words in one.text] == [kind]
    assert exit_code(findings) == kind.value
    assert findings[0].kind is kind


def test_a_set_that_is_not_sealed_is_content_with_that_and_tells_how():
    findings = check_contracts(unsealed(), expected=ADDRESSES)

    assert [(one.kind, one.hint) for one in findings] == [
        (FindingKind.NOTE, "Run `gridstead contracts seal`.")
    ]
    assert exit_code(findings) == 0


@pytest.mark.parametrize(
    ("found", "contract", "hint"),
    [
        (
            unsealed(),
            "JobRepository",
            f"Run `gridstead contracts revoke contract {IMPOSTOR}` at once.",
        ),
        (
            unsealed(first_block=None),
            "JobRepository",
            f"Run `gridstead contracts revoke contract {IMPOSTOR}` at once.",
        ),
        (
            state(),
            "ProviderManager",
            f"Run `gridstead contracts revoke contract {IMPOSTOR}` at once.",
        ),
        (
            state(),
            "JobRepository",
            "Close the set at once, deploy a new one, and find out how the account came to its",
        ),
    ],
)
def test_a_stranger_with_power_is_ended_by_who_can(found, contract, hint):
    """Of a sealed JobRepository nobody can take a role any more."""
    finding = check_contracts(given(found, contract, Role.CONTRACT, IMPOSTOR))[0]

    assert (finding.kind, finding.hint.startswith(hint)) == (FindingKind.POWER, True)


def test_an_address_that_is_not_the_files_is_told():
    (finding,) = check_contracts(state(), expected=ADDRESSES | {"Credit": IMPOSTOR})

    assert finding.kind is FindingKind.WIRING
    assert (
        finding.text
        == f"MetaScheduler uses Credit {ADDRESSES['Credit']}, the deployment file names {IMPOSTOR}"
    )


def test_an_escrow_that_nobody_counted_is_not_judged():
    assert check_contracts(state(escrow=None)) == ()


def test_a_set_without_events_that_may_be_sealed_differs_in_nothing():
    (finding,) = check_contracts(state(first_block=None))

    assert finding.text.startswith("events could not be searched")


def test_roles_that_no_event_tells_of_are_not_said_to_be_nobodys():
    found = without(state(first_block=None), "MetaScheduler", Role.ADMIN, OLD)

    assert {one.kind for one in check_contracts(found)} == {FindingKind.NOTE}


def test_the_gravest_comes_first_and_gives_the_exit_code():
    found = given(
        state(accepts_jobs=False, placed=placed(Code.FOREIGN)),
        "JobRepository",
        Role.CONTRACT,
        IMPOSTOR,
    )

    findings = check_contracts(found)

    assert [one.kind for one in findings] == [FindingKind.POWER, FindingKind.CODE, FindingKind.NOTE]
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
