# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts deploy` on a real chain."""

from __future__ import annotations

import json

import pytest
from tests.adapters.chain.contracts_command import CONFIG, INPUT, NEW_OWNER, holders
from tests.devnet import CHAIN_ID, wallet

OPERATOR = wallet(67).address
STEPS = 12
LAST_STEP = (STEPS, "nobody can name a writer to JobRepository any more")


@pytest.fixture
def deploy(contracts_cli, tmp_path):
    """Returns a function that runs the command with a wallet that has deployed nothing."""
    file = tmp_path / "grid.json"

    def run(*arguments, **options):
        defaults = {"deployment": file, "meta-scheduler": OPERATOR, "by": NEW_OWNER}
        return contracts_cli.run("deploy", *arguments, **(defaults | options))

    run.file, run.contracts_cli = file, contracts_cli
    return run


def test_dry_run_prints_every_transaction_and_changes_nothing(deploy):
    code, out, err = deploy("--dry-run", "--json")

    plan = json.loads(out)
    assert (code, err, plan["dry_run"], plan["changed"]) == (0, "", True, False)
    assert [step["nonce"] for step in plan["steps"]] == list(range(STEPS))
    assert sum("creates" in step for step in plan["steps"]) == 6
    for step in plan["steps"]:
        check_step(step)
    assert (deploy.file.exists(), deploy.contracts_cli.sent(NEW_OWNER)) == (False, 0)


def check_step(step):
    if "creates" not in step:
        assert step["to"]
        assert step["data"].startswith("0x")
        return
    assert step["to"] is None
    assert step["gas"] > 0
    assert step["data_bytes"] > 0
    assert len(step["data_hash"]) == 66


def test_planned_transactions_are_sent_and_the_set_is_verified(deploy):
    planned = json.loads(deploy("--dry-run", "--json")[1])

    code, out, err = deploy("--json")

    status = json.loads(out)
    assert (code, status["changed"], status["sent"]) == (0, True, STEPS)
    assert status["verdict"]["right"] is True
    addresses = {entry["contract"]: entry["address"] for entry in status["contracts"]}
    creations = [step for step in planned["steps"] if "creates" in step]
    assert addresses == {step["contract"]: step["creates"] for step in creations}
    assert {entry["code"] for entry in status["contracts"]} == {"ours"}
    governed = {"MetaScheduler", "ProviderManager"}
    assert holders(status, "matcher") == {(contract, OPERATOR) for contract in governed}
    assert {contract for contract, _ in holders(status, "admin")} == governed
    document = json.loads(deploy.file.read_text())
    assert (document["contracts"], document["first_block"]) == (addresses, status["first_block"])
    for number, title in ((STEPS - 1, f"{OPERATOR} is matcher of ProviderManager"), LAST_STEP):
        assert f"[{number}/{STEPS}] sending: {title}" in err


def test_second_run_sends_nothing(deploy):
    deploy()
    sent = deploy.contracts_cli.sent(NEW_OWNER)

    code, out, err = deploy()

    assert (code, err, deploy.contracts_cli.sent(NEW_OWNER)) == (0, "", sent)
    assert "all checks passed" in out
    assert deploy("--dry-run")[:2] == (0, "no transaction would be sent\n")


def test_dry_run_prints_a_table(deploy):
    code, out, _ = deploy("--dry-run")

    assert code == 0
    assert "creation of MetaScheduler" in out
    assert "0: " in out
    assert f"{STEPS - 2}: 0x2f2ff15d" in out
    assert f"{STEPS - 1}: 0x36568abe" in out


@pytest.mark.parametrize(
    ("arguments", "options", "code", "words"),
    [
        ((), {"chain-id": CHAIN_ID + 1}, CONFIG, f"the chain must be {CHAIN_ID + 1}"),
        ((), {"meta-scheduler": "0x12"}, INPUT, "invalid address '0x12'"),
        ((), {"supply": "-1"}, INPUT, "invalid amount of credits '-1'"),
        ((), {"admin-keystore": "/nonexistent"}, CONFIG, "cannot read wallet /nonexistent"),
        ((), {"admin-password-file": "/nonexistent"}, CONFIG, "cannot read wallet"),
    ],
)
def test_invalid_option_is_an_error_before_the_first_transaction(
    deploy, arguments, options, code, words
):
    done = deploy(*arguments, **options)

    assert (done[0], done[1]) == (code, "")
    assert words in done[2]
    assert (deploy.file.exists(), deploy.contracts_cli.sent(NEW_OWNER)) == (False, 0)


def test_unfinished_deployment_has_no_status(deploy):
    deploy()
    document = json.loads(deploy.file.read_text())
    del document["contracts"]["MetaScheduler"]
    deploy.file.write_text(json.dumps(document))

    code, _, err = deploy.contracts_cli.read("status", deployment=deploy.file)

    assert code == CONFIG
    assert "is not finished" in err


def test_wrong_set_is_printed_with_finding_and_hint(deploy):
    deploy()
    document = json.loads(deploy.file.read_text())
    document["contracts"]["Credit"] = "0x" + "12" * 20
    deploy.file.write_text(json.dumps(document))

    code, out, _ = deploy.contracts_cli.read("status", deployment=deploy.file)

    assert code == CONFIG
    assert "WRONG: MetaScheduler uses Credit" in out
    assert "  Use the deployment file of this set." in out
    assert "all checks passed" not in out
