# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts deploy` on a real chain."""

from __future__ import annotations

import json

import pytest
from tests.adapters.chain.contracts_command import CONFIG, INPUT, NEW_OWNER
from tests.devnet import CHAIN_ID, wallet

OPERATOR = wallet(67).address
STEPS = 12


@pytest.fixture
def deploy(contracts_cli, tmp_path):
    """Runs the command with a wallet that has deployed nothing yet."""
    file = tmp_path / "grid.json"

    def run(*arguments, **options):
        wanted = {"deployment": file, "meta-scheduler": OPERATOR, "by": NEW_OWNER} | options
        return contracts_cli.run("deploy", *arguments, **wanted)

    run.file, run.contracts_cli = file, contracts_cli
    return run


def test_a_dry_run_tells_every_transaction_and_leaves_no_trace(deploy):
    code, out, err = deploy("--dry-run", "--json")

    told = json.loads(out)
    assert (code, err, told["dry_run"], told["changed"]) == (0, "", True, False)
    assert [one["nonce"] for one in told["steps"]] == list(range(STEPS))
    created = [one for one in told["steps"] if "creates" in one]
    assert [one["to"] for one in created] == [None] * 6
    assert all(
        one["gas"] > 0 and one["data_bytes"] > 0 and len(one["data_hash"]) == 66 for one in created
    )
    assert all(
        one["to"] and one["data"].startswith("0x") for one in told["steps"] if one not in created
    )
    assert (deploy.file.exists(), deploy.contracts_cli.sent(NEW_OWNER)) == (False, 0)


def test_what_was_planned_is_what_is_deployed_verified_and_shown(deploy):
    planned = json.loads(deploy("--dry-run", "--json")[1])

    code, out, err = deploy("--json")

    made = json.loads(out)
    assert (code, made["changed"], made["sent"], made["verdict"]["right"]) == (0, True, STEPS, True)
    placed = {one["contract"]: one["address"] for one in made["contracts"]}
    assert placed == {
        one["contract"]: one["creates"] for one in planned["steps"] if "creates" in one
    }
    assert {one["code"] for one in made["contracts"]} == {"ours"}
    matchers = {
        one["contract"]
        for one in made["roles"]
        if (one["role"], one["account"]) == ("matcher", OPERATOR)
    }
    assert matchers == {"MetaScheduler", "ProviderManager"}
    document = json.loads(deploy.file.read_text())
    assert (document["contracts"], document["first_block"]) == (placed, made["first_block"])
    assert f"[{STEPS - 1}/{STEPS}] sending: {OPERATOR} is matcher of ProviderManager" in err
    assert f"[{STEPS}/{STEPS}] sending: nobody can name a writer to JobRepository any more" in err
    assert {one["contract"] for one in made["roles"] if one["role"] == "admin"} == {
        "MetaScheduler",
        "ProviderManager",
    }


def test_a_second_run_shows_the_same_and_sends_nothing(deploy):
    deploy()
    sent = deploy.contracts_cli.sent(NEW_OWNER)

    code, out, err = deploy()

    assert (code, err, deploy.contracts_cli.sent(NEW_OWNER)) == (0, "", sent)
    assert "all checks passed" in out
    assert deploy("--dry-run")[:2] == (0, "no transaction would be sent\n")


def test_a_dry_run_is_readable_too(deploy):
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
def test_what_cannot_be_right_is_told_before_anything_is_sent(
    deploy, arguments, options, code, words
):
    done = deploy(*arguments, **options)

    assert (done[0], done[1]) == (code, "")
    assert words in done[2]
    assert (deploy.file.exists(), deploy.contracts_cli.sent(NEW_OWNER)) == (False, 0)


def test_a_deployment_that_is_not_finished_has_no_status(deploy):
    deploy()
    document = json.loads(deploy.file.read_text())
    del document["contracts"]["MetaScheduler"]
    deploy.file.write_text(json.dumps(document))

    code, _, err = deploy.contracts_cli.read("status", deployment=deploy.file)

    assert code == CONFIG
    assert "is not finished" in err


def test_a_wrong_set_is_shown_with_what_is_wrong_and_what_to_do(deploy):
    deploy()
    document = json.loads(deploy.file.read_text())
    document["contracts"]["Credit"] = "0x" + "12" * 20
    deploy.file.write_text(json.dumps(document))

    code, out, _ = deploy.contracts_cli.read("status", deployment=deploy.file)

    assert code == CONFIG
    assert "WRONG: MetaScheduler uses Credit" in out
    assert "  Look for the right deployment file." in out
    assert "all checks passed" not in out
