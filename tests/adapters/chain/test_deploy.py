# SPDX-License-Identifier: Apache-2.0
"""Deployments on a real chain."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.adapters.chain.deploying import (
    ADMIN,
    CREATION_COUNT,
    STEP_COUNT,
    planned_addresses,
)
from tests.devnet import COIN

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.contracts import blueprint
from gridstead.adapters.contracts.deployment_file import read
from gridstead.adapters.contracts.factory import STANDARD_FACTORY
from gridstead.adapters.contracts.steps import role_id
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.diagnostic import exit_code
from gridstead.errors import ConfigError


def test_all_contracts_are_deployed_with_their_roles(site):
    addresses = site.run()

    site.check(addresses)
    contracts = find_contracts(site.chain.node, addresses["MetaScheduler"])
    assert Customer(site.chain.node, contracts, ADMIN).balance() == COIN
    mined_lines = [line for line in site.reported if "done in block" in line]
    assert len(mined_lines) == STEP_COUNT
    assert site.reported[0] == f"[1/{CREATION_COUNT}] sending: creation of Credit"


def test_deployer_of_a_set_has_no_role_and_no_credits(site):
    addresses = site.run()

    state = site.inspect(addresses)
    assert STANDARD_FACTORY not in {holder.account for holder in state.holders}
    assert STANDARD_FACTORY not in {ownership.owner for ownership in state.owners}
    contracts = find_contracts(site.chain.node, addresses["MetaScheduler"])
    balance = contracts.credit.read("balanceOf", STANDARD_FACTORY)
    assert int(site.chain.anvil.rpc("eth_call", balance, "latest"), 16) == 0


def test_second_run_sends_nothing_and_keeps_the_deployment_file(site):
    addresses = site.run()
    file_before = site.path.stat()
    height, line_count = site.chain.node.ask("eth_blockNumber"), len(site.reported)

    assert site.run() == addresses

    assert site.chain.node.ask("eth_blockNumber") == height
    assert len(site.reported) == line_count
    file_after = site.path.stat()
    assert file_after.st_mtime_ns == file_before.st_mtime_ns
    assert file_after.st_ino == file_before.st_ino


def test_run_without_the_deployment_file_finds_the_set_and_writes_the_file_again(site):
    site.run()
    record = read(site.path)
    site.path.unlink()

    site.check(site.run())

    assert read(site.path) == record


def test_sets_with_another_salt_or_supply_have_no_contract_in_common(site):
    """A common JobRepository would have MetaScheduler of the older set as its only writer."""
    first, other_salt, other_supply = (
        set(planned_addresses().values()),
        set(planned_addresses(salt="2").values()),
        set(planned_addresses(supply=7).values()),
    )
    site.path = site.path.with_name("second.json")

    assert set(site.run(salt="2").values()) == other_salt
    assert first.isdisjoint(other_salt)
    assert first.isdisjoint(other_supply)


def test_sets_of_releases_with_other_code_have_no_contract_in_common(monkeypatch):
    first = set(planned_addresses().values())
    constants = artifact("Constants")
    changed = replace(constants, bytecode=constants.bytecode + "00")
    monkeypatch.setattr(
        blueprint, "artifact", lambda name: changed if name == "Constants" else artifact(name)
    )

    assert first.isdisjoint(planned_addresses().values())


def nonces(steps):
    return [step.nonce for step in steps]


def test_plan_has_the_transactions_and_addresses_of_the_next_run(site):
    steps = site.plan_steps()

    assert not site.path.exists()
    assert site.next_nonce("pending") == 0
    assert nonces(steps) == list(range(STEP_COUNT))
    addresses = site.run()
    creations = [step for step in steps if step.creates]
    assert {step.contract: step.creates for step in creations} == addresses
    for step in steps:
        transaction = site.chain.anvil.rpc(
            "eth_getTransactionBySenderAndNonce", ADMIN.address, hex(step.nonce)
        )
        assert (transaction["input"], transaction["to"]) == (step.data, step.to)


def test_plan_after_an_interruption_starts_with_the_first_unsent_transaction(site):
    site.crash(CREATION_COUNT, sent=False)

    steps = site.plan_steps()

    assert nonces(steps) == list(range(CREATION_COUNT - 1, STEP_COUNT))
    content_before = site.path.read_bytes()
    assert site.plan_steps() == steps
    assert site.path.read_bytes() == content_before


def test_plan_has_gas_estimates_of_creations(site):
    for step in site.plan_steps():
        if step.creates:
            assert 100_000 < step.gas < 10_000_000
        else:
            assert step.gas is None  # the called contract does not exist yet


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("chain_id", 1),
        ("genesis", "0x" + "77" * 32),
        ("admin", "0x" + "77" * 20),
        ("supply_wei", 5),
        ("salt", "another"),
    ],
)
def test_deployment_file_of_another_chain_administrator_or_set_is_refused(site, field, value):
    site.run()
    document = json.loads(site.path.read_text())
    site.path.write_text(json.dumps(document | {field: value}))

    with pytest.raises(ConfigError, match=f"its {field} is {value}, ") as refusal:
        site.deployment()

    assert "another file" in refusal.value.hint
    assert site.next_nonce() == STEP_COUNT


def test_renew_replaces_the_file_of_another_chain(site):
    old_content = {
        "chain_id": 179188,
        "genesis": "0xabcdef0123",
        "admin": ADMIN.address,
        "contracts": {"Credit": "0x" + "99" * 20},
    }
    site.path.write_text(json.dumps(old_content))

    site.check(site.run(renew=True))


def test_deployment_file_of_an_earlier_release_is_read(site):
    addresses = site.run()
    site.keep_only_fields_of_earlier_releases()

    assert site.run(supply=7) == addresses
    assert site.next_nonce() == STEP_COUNT


@pytest.mark.parametrize("generation", ["2.0.0"], indirect=True)
def test_set_of_an_earlier_release_is_not_created_again(site, chain):
    genesis = chain.anvil.rpc("eth_getBlockByNumber", "0x0", False)["hash"]
    old_content = {
        "chain_id": 179188,
        "genesis": genesis,
        "admin": chain.admin.address,
        "contracts": chain.addresses,
    }
    site.path.write_text(json.dumps(old_content))
    operator = chain.operator.address

    assert site.plan_steps(admin=chain.admin, operator=operator) == ()
    assert site.run(admin=chain.admin, operator=operator) == chain.addresses

    assert read(site.path).first_block == 1


def test_unfinished_set_of_an_earlier_release_is_refused(site):
    site.run()
    site.keep_only_fields_of_earlier_releases()
    document = json.loads(site.path.read_text())
    # Another contract that exists, at an address that this release does not use.
    document["contracts"] = {"Credit": site.chain.addresses["Credit"]}
    site.path.write_text(json.dumps(document))

    with pytest.raises(ConfigError, match="cannot complete the deployment") as refusal:
        site.run()

    assert f"Credit exists at {site.chain.addresses['Credit']}" in refusal.value.detail
    assert site.next_nonce() == STEP_COUNT


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        '{"chain_id": 1, "genesis": "", "admin": "", "contracts": {"Credit": "x"}}',
        '{"chain_id": 1, "genesis": "", "admin": "", "contracts": {}, "deployer": "x"}',
        '{"chain_id": 1, "genesis": "", "admin": "", "contracts": {}, "first_block": "x"}',
    ],
)
def test_invalid_file_is_a_config_error(site, content):
    site.path.write_text(content)

    with pytest.raises(ConfigError, match="cannot read the deployment") as refusal:
        site.deployment()

    assert refusal.value.hint


def test_missing_folder_is_an_error_before_the_first_transaction(site):
    site.path = site.path.parent / "absent" / "deployment.json"

    with pytest.raises(ConfigError, match="cannot write the deployment"):
        site.run()

    assert site.next_nonce() == 0


def test_deployment_continues_after_the_wallet_gets_coins(site):
    site.chain.anvil.rpc("anvil_setBalance", ADMIN.address, hex(10**12))

    with pytest.raises(ConfigError, match="cannot pay for transactions of") as refusal:
        site.run()

    assert refusal.value.hint == "Send coins of the chain to the wallet."
    site.chain.anvil.fund(ADMIN.address)
    site.check(site.run())


def test_missing_role_is_granted_again(site):
    addresses = site.run()
    revoke = find_contracts(site.chain.node, addresses["MetaScheduler"]).providers.data(
        "revokeRole", role_id("METASCHEDULER_CONTRACT_ROLE"), addresses["MetaScheduler"]
    )
    DirectSender(site.chain.node, ADMIN).transact(
        addresses["ProviderManager"], revoke, name="revokeRole"
    )

    assert [step.function for step in site.plan_steps()] == ["grantRole"]
    assert site.run() == addresses

    assert site.next_nonce() == STEP_COUNT + 2  # the revocation and the grant
    assert exit_code(check_contracts(site.inspect(addresses))) == 0
