# SPDX-License-Identifier: Apache-2.0
"""The diagnostics of a set of contracts (all contracts of one grid), and the names of roles."""

from dataclasses import replace

import pytest
from tests.unit.domain.contracts.sets import (
    ADDRESSES,
    MATCHER,
    META_SCHEDULER,
    NEW_ADMIN,
    OLD_ADMIN,
    OUTSIDER,
    state,
    unsealed,
    with_ownership,
    with_role,
    without_role,
)

from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.contracts.deployment import NOBODY, Code, Escrow, Role, parse_role
from gridstead.domain.diagnostic import Severity, exit_code
from gridstead.errors import InvalidInput

REVOKE = f"Run `gridstead contracts revoke contract {OUTSIDER}` at once."


def with_code(code, contract="Credit"):
    """Return a set in which ``code`` is the result of comparing a contract with our release."""
    contracts = {deployed.contract: deployed for deployed in state().contracts}
    contracts[contract] = replace(contracts[contract], code=code)
    return state(contracts=tuple(contracts.values()))


def plain_deepsquare(**changes):
    """Return a set of contracts of DeepSquare 1.2. Gridstead's contracts are derived from them."""
    contracts = tuple(replace(deployed, code=Code.FOREIGN) for deployed in state().contracts)
    return state(version="", contracts=contracts, **changes)


def earlier_release():
    """Return a set of contracts of release 2.0.0."""
    contracts = tuple(replace(deployed, code=Code.EARLIER) for deployed in state().contracts)
    return state(version="2.0.0", contracts=contracts)


def with_balance(balance):
    """Return a set in which MetaScheduler holds this balance and owes 105 wei."""
    return state(escrow=Escrow(balance=balance, escrowed=100, fees=5, jobs=3, hot_jobs=1))


def test_correct_set_has_no_diagnostics():
    assert check_contracts(state(), expected=ADDRESSES) == ()
    assert exit_code(()) == 0


# Sets with a fault, the severity of the diagnostic, and a part of its text.
FAULTS = [
    (with_balance(104), Severity.ESCROW, "1 wei of credits less than it owes"),
    (
        with_role(state(), "JobRepository", Role.CONTRACT, OUTSIDER),
        Severity.POWER,
        f"{OUTSIDER} may write to JobRepository",
    ),
    (
        with_role(state(), "ProviderManager", Role.CONTRACT, OUTSIDER),
        Severity.POWER,
        f"{OUTSIDER} may write to ProviderManager",
    ),
    (
        with_ownership(state(), "ProviderJobQueues", owner=OUTSIDER),
        Severity.POWER,
        f"ProviderJobQueues belongs to {OUTSIDER}",
    ),
    (
        with_code(Code.FOREIGN),
        Severity.CODE,
        f"Credit at {ADDRESSES['Credit']} does not have the code",
    ),
    (
        replace(with_code(Code.FOREIGN), version="2.0.0"),
        Severity.CODE,
        f"Credit at {ADDRESSES['Credit']} does not have the code of version 2.0.0",
    ),
    (
        with_code(Code.MISSING, "MetaScheduler"),
        Severity.WIRING,
        "there is no contract MetaScheduler",
    ),
    (
        state(queues_jobs=OUTSIDER),
        Severity.WIRING,
        f"ProviderJobQueues reads JobRepository {OUTSIDER}",
    ),
    (
        without_role(state(), "JobRepository", Role.CONTRACT, META_SCHEDULER),
        Severity.WIRING,
        "MetaScheduler does not have its role in JobRepository",
    ),
    (
        without_role(state(), "MetaScheduler", Role.ADMIN, OLD_ADMIN),
        Severity.WIRING,
        "no account is admin of MetaScheduler",
    ),
    (
        without_role(state(), "ProviderManager", Role.MATCHER, MATCHER),
        Severity.WIRING,
        "no account is matcher of ProviderManager",
    ),
    (
        with_ownership(state(), "ProviderJobQueues", owner=OLD_ADMIN),
        Severity.WIRING,
        f"ProviderJobQueues belongs to {OLD_ADMIN} instead",
    ),
]

# Sets about which there is only a note, and a part of the note's text.
NOTES = [
    (with_code(Code.UNKNOWN), "could not be compared"),
    (plain_deepsquare(fees=None, queues_jobs=None), "plain DeepSquare 1.2"),
    (earlier_release(), "these contracts are of version 2.0.0, an earlier release"),
    (unsealed(), f"{OLD_ADMIN} can add a second writer to JobRepository"),
    (state(first_block=None), "more accounts may hold roles than are shown"),
    (
        with_role(state(), "MetaScheduler", Role.ADMIN, NEW_ADMIN),
        "the contracts differ in who is admin",
    ),
    (with_ownership(state(), "Credit", owner=NOBODY), "Credit has no owner"),
    (
        with_ownership(state(), "Constants", owner=OUTSIDER),
        f"Constants belongs to {OUTSIDER}, who is not admin",
    ),
    (
        with_ownership(state(), "Constants", offered_to=NEW_ADMIN),
        f"Constants is offered to {NEW_ADMIN}",
    ),
    (state(accepts_jobs=False), "the set is closed"),
    (with_balance(106), "1 wei of credits more than it owes"),
]


@pytest.mark.parametrize(("grid", "severity", "text"), FAULTS)
def test_fault_is_reported_with_its_severity(grid, severity, text):
    check_report(grid, severity, text)


@pytest.mark.parametrize(("grid", "text"), NOTES)
def test_unusual_set_causes_a_note(grid, text):
    check_report(grid, Severity.NOTE, text)


def check_report(grid, severity, text):
    """Assert that one diagnostic has this text and severity, and no severity is higher."""
    diagnostics = check_contracts(grid)

    (diagnostic,) = [diagnostic for diagnostic in diagnostics if text in diagnostic.what]
    assert diagnostic.severity is severity
    assert exit_code(diagnostics) == severity.value
    assert diagnostics[0].severity is severity


def test_unsealed_set_causes_one_note_and_no_other_diagnostic():
    (diagnostic,) = check_contracts(unsealed(), expected=ADDRESSES)

    assert diagnostic.severity is Severity.NOTE
    assert diagnostic.hint == "Run `gridstead contracts seal`."


@pytest.mark.parametrize(
    ("grid", "contract", "hint"),
    [
        (unsealed(), "JobRepository", REVOKE),
        (unsealed(first_block=None), "JobRepository", REVOKE),
        (state(), "ProviderManager", REVOKE),
        (state(), "JobRepository", "Close the set at once, deploy a new one, and find out how"),
    ],
)
def test_hint_about_an_unauthorised_writer_depends_on_whether_its_role_can_be_revoked(
    grid, contract, hint
):
    """No account can revoke a role of a sealed JobRepository."""
    diagnostic = check_contracts(with_role(grid, contract, Role.CONTRACT, OUTSIDER))[0]

    assert diagnostic.severity is Severity.POWER
    assert diagnostic.hint.startswith(hint)


def test_address_that_differs_from_the_deployment_file_is_reported():
    (diagnostic,) = check_contracts(state(), expected=ADDRESSES | {"Credit": OUTSIDER})

    assert diagnostic.severity is Severity.WIRING
    assert diagnostic.where == ("Credit",)
    assert ADDRESSES["Credit"] in diagnostic.what
    assert OUTSIDER in diagnostic.what


def test_escrow_that_was_not_counted_is_not_checked():
    assert check_contracts(state(escrow=None)) == ()


def test_difference_between_contracts_is_not_reported_if_events_could_not_be_searched():
    (diagnostic,) = check_contracts(state(first_block=None))

    assert diagnostic.what.startswith("events could not be searched")


def test_missing_role_holder_is_not_reported_if_events_could_not_be_searched():
    grid = without_role(state(first_block=None), "MetaScheduler", Role.ADMIN, OLD_ADMIN)

    assert {diagnostic.severity for diagnostic in check_contracts(grid)} == {Severity.NOTE}


def test_most_serious_diagnostic_comes_first_and_sets_the_exit_code():
    closed_set = replace(with_code(Code.FOREIGN), accepts_jobs=False)

    diagnostics = check_contracts(with_role(closed_set, "JobRepository", Role.CONTRACT, OUTSIDER))

    severities = [diagnostic.severity for diagnostic in diagnostics]
    assert severities == [Severity.POWER, Severity.CODE, Severity.NOTE]
    assert exit_code(diagnostics) == 77  # the exit code for Severity.POWER


@pytest.mark.parametrize("text", ["admin", " Admin ", "ADMIN"])
def test_role_is_parsed_from_its_name(text):
    assert parse_role(text) is Role.ADMIN


@pytest.mark.parametrize("text", ["minter", "", "contract", "x" * 500])
def test_role_that_cannot_be_granted_is_refused_with_the_allowed_roles(text):
    with pytest.raises(InvalidInput, match="invalid role") as refusal:
        parse_role(text)

    assert "admin, matcher" in refusal.value.hint
    assert len(refusal.value.message) < 120


def test_role_of_a_contract_is_parsed_if_it_is_allowed():
    assert parse_role("contract", Role) is Role.CONTRACT
