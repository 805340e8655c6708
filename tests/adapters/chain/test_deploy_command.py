# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts deploy` on a real chain."""

from __future__ import annotations

import json

import pytest
from tests.adapters.chain import deploying
from tests.adapters.chain.contracts_command import (
    CONFIG_ERROR,
    INPUT_ERROR,
    NEW_OWNER,
    UNUSED_ADDRESS,
    contract_addresses,
    field_values,
    holders,
)
from tests.devnet import CHAIN_ID, wallet

from gridstead.adapters.contracts.factory import STANDARD_FACTORY

OPERATOR = wallet(67).address
STEP_COUNT = deploying.STEP_COUNT + 1  # the command also sets the claim timeout
LAST_STEP = "nobody can name a writer to JobRepository any more"


@pytest.fixture
def deploy(contracts_cli, tmp_path):
    """Return a function that runs the command with a wallet that has deployed nothing.

    The function has the attributes ``file`` (the deployment file) and ``contracts_cli``.
    """
    file = tmp_path / "grid.json"
    contracts_cli.chain.anvil.mine_at_intervals(1200, 2)  # 2 s between blocks

    def run(*arguments, **options):
        defaults = {"deployment": file, "meta-scheduler": OPERATOR, "by": NEW_OWNER}
        return contracts_cli.run("deploy", *arguments, **(defaults | options))

    run.file, run.contracts_cli = file, contracts_cli
    return run


def test_dry_run_prints_every_transaction_and_changes_nothing(deploy):
    code, out, err = deploy("--dry-run", "--json")

    plan = json.loads(out)
    assert (code, err, plan["dry_run"], plan["changed"]) == (0, "", True, False)
    assert len(plan["steps"]) == STEP_COUNT
    assert len(creations(plan)) == 6
    for nonce, step in enumerate(plan["steps"]):
        assert step["nonce"] == nonce
        check_step(step)
    assert not deploy.file.exists()
    assert deploy.contracts_cli.transaction_count(NEW_OWNER) == 0


def creations(plan):
    """Return the steps of a plan that create contracts."""
    return [step for step in plan["steps"] if "creates" in step]


def check_step(step):
    """Assert that a step of the plan has what an administrator needs to check it."""
    if "creates" not in step:
        assert step["to"]
        assert step["data"].startswith("0x")
        return
    assert step["to"] == STANDARD_FACTORY
    assert step["gas"] > 0
    assert step["data_bytes"] > 0
    assert len(step["data_hash"]) == 66  # "0x" and 64 digits


def test_planned_transactions_are_sent_and_the_set_is_verified(deploy):
    plan = json.loads(deploy("--dry-run", "--json").out)

    code, out, err = deploy("--json")

    status = json.loads(out)
    assert (code, status["changed"], status["sent"]) == (0, True, STEP_COUNT)
    assert status["verdict"]["right"] is True
    addresses = contract_addresses(status)
    assert addresses == {step["contract"]: step["creates"] for step in creations(plan)}
    assert field_values(status["contracts"], "code") == {"ours"}
    governed_contracts = {"MetaScheduler", "ProviderManager"}
    assert holders(status, "matcher") == {(contract, OPERATOR) for contract in governed_contracts}
    assert {contract for contract, _ in holders(status, "admin")} == governed_contracts
    document = json.loads(deploy.file.read_text())
    assert document["contracts"] == addresses
    assert document["first_block"] == status["first_block"]
    assert "[6/6] sending: creation of MetaScheduler" in err
    assert "[6/7] sending: claimJobTimeout is " in err
    assert f"[7/7] sending: {LAST_STEP}" in err
    assert status["claim_timeout_s"] == pytest.approx(120, abs=3)


def test_second_run_sends_nothing(deploy):
    deploy()
    count_before = deploy.contracts_cli.transaction_count(NEW_OWNER)

    code, out, err = deploy()

    assert (code, err) == (0, "")
    assert deploy.contracts_cli.transaction_count(NEW_OWNER) == count_before
    assert "all checks passed" in out
    dry_run = deploy("--dry-run")
    assert (dry_run.code, dry_run.out) == (0, "no transaction would be sent\n")


def test_dry_run_prints_a_table(deploy):
    code, out, _ = deploy("--dry-run")

    assert code == 0
    assert "creation of MetaScheduler" in out
    assert "0: " in out
    assert f"{STEP_COUNT - 3}: 0x2f2ff15d" in out  # the selector of grantRole
    assert f"{STEP_COUNT - 1}: 0x36568abe" in out  # the selector of renounceRole


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"chain-id": CHAIN_ID + 1}, CONFIG_ERROR, f"the chain must be {CHAIN_ID + 1}"),
        ({"meta-scheduler": "0x12"}, INPUT_ERROR, "invalid address '0x12'"),
        ({"supply": "-1"}, INPUT_ERROR, "invalid amount of credits '-1'"),
        ({"salt": "\udcff"}, INPUT_ERROR, "invalid salt"),
        ({"deployer": "0x12"}, INPUT_ERROR, "invalid address '0x12'"),
        ({"deployer": UNUSED_ADDRESS}, CONFIG_ERROR, f"there is no deployer at {UNUSED_ADDRESS}"),
        ({"admin-keystore": "/nonexistent"}, CONFIG_ERROR, "cannot read wallet /nonexistent"),
        ({"admin-password-file": "/nonexistent"}, CONFIG_ERROR, "cannot read wallet"),
    ],
)
def test_invalid_option_is_an_error_before_the_first_transaction(deploy, options, code, message):
    result = deploy(**options)

    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert not deploy.file.exists()
    assert deploy.contracts_cli.transaction_count(NEW_OWNER) == 0


def test_status_of_an_unfinished_deployment_is_an_error(deploy):
    deploy()
    document = json.loads(deploy.file.read_text())
    del document["contracts"]["MetaScheduler"]
    deploy.file.write_text(json.dumps(document))

    code, _, err = deploy.contracts_cli.read("status", deployment=deploy.file)

    assert code == CONFIG_ERROR
    assert "is not finished" in err


def test_status_of_an_inconsistent_set_prints_finding_and_hint(deploy):
    deploy()
    document = json.loads(deploy.file.read_text())
    document["contracts"]["Credit"] = "0x" + "12" * 20
    deploy.file.write_text(json.dumps(document))

    code, out, _ = deploy.contracts_cli.read("status", deployment=deploy.file)

    assert code == CONFIG_ERROR
    assert "WRONG: MetaScheduler uses Credit" in out
    assert "  Use the deployment file of this set." in out
    assert "all checks passed" not in out
