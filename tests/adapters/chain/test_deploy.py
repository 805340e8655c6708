# SPDX-License-Identifier: Apache-2.0
"""Deployments on a real chain."""

from __future__ import annotations

import json

import pytest
from tests.adapters.chain.deploying import ADMIN, OPERATOR, STEP_COUNT, MiningNode
from tests.devnet import COIN

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.contracts.blueprint import address_of
from gridstead.adapters.contracts.deployment_file import Origin, Record, read, rename_file, write
from gridstead.adapters.contracts.steps import filler_step, role_id
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
    assert site.reported[0] == f"[1/{STEP_COUNT}] sending: creation of Credit"


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


def nonces(steps):
    return [step.nonce for step in steps]


def test_plan_sends_and_records_nothing(site):
    site.plan_steps()

    assert not site.path.exists()
    assert site.next_nonce("pending") == 0


def test_plan_has_the_transactions_and_addresses_of_the_next_run(site):
    steps = site.plan_steps()

    assert nonces(steps) == list(range(STEP_COUNT))
    addresses = site.run()
    creations = [step for step in steps if step.creates]
    assert {step.contract: step.creates for step in creations} == addresses
    record = read(site.path)
    for nonce, step in enumerate(steps):
        intent = record.intent(step.title)
        transaction = site.chain.anvil.rpc("eth_getTransactionByHash", intent.hashes[-1])
        receiver = (transaction["to"] or "").lower()
        assert (intent.nonce, transaction["input"], receiver) == (nonce, step.data, step.to)


def test_plan_after_an_interruption_starts_with_the_first_unsent_transaction(site):
    site.crash(7, sent=False)

    steps = site.plan_steps()

    assert nonces(steps) == list(range(6, STEP_COUNT))  # six transactions were sent
    before = site.path.read_bytes()
    assert site.plan_steps() == steps
    assert site.path.read_bytes() == before


def test_plan_has_gas_estimates_of_creations(site):
    deployment = site.deployment()
    steps = deployment.with_gas(deployment.plan_steps(operator=OPERATOR.address, supply=COIN))

    for step in steps:
        if step.creates:
            assert 100_000 < step.gas < 10_000_000
        else:
            assert step.gas is None  # the called contract does not exist yet


@pytest.mark.parametrize(
    ("field", "value"),
    [("chain_id", 1), ("genesis", "0x" + "77" * 32), ("admin", "0x" + "77" * 32)],
)
def test_deployment_file_of_another_chain_or_administrator_is_refused(site, field, value):
    site.run()
    document = json.loads(site.path.read_text())
    site.path.write_text(json.dumps(document | {field: value}))

    with pytest.raises(ConfigError, match=f"its {field} is") as refusal:
        site.deployment()

    assert "another file" in refusal.value.hint
    assert site.next_nonce() == STEP_COUNT


def test_renew_deploys_new_contracts_and_renames_the_old_file(site):
    old_content = {
        "chain_id": 179188,
        "genesis": "0xabcdef0123",
        "admin": ADMIN.address,
        "contracts": {"Credit": "0x" + "99" * 20},
    }
    site.path.write_text(json.dumps(old_content))

    addresses = site.run(renew=True)

    site.check(addresses)
    new_name = f"deployment.json.179188-abcdef01-{ADMIN.address[2:10]}"
    assert json.loads(site.path.with_name(new_name).read_text()) == old_content


def test_renew_restores_the_renamed_file_of_the_chain(site):
    """The file of this chain was renamed, because the folder was used for another chain."""
    addresses = site.run(renew=True)
    record = read(site.path)
    rename_file(site.path, record)
    other_origin = Origin(chain_id=1, genesis="0xff", admin="0xee")
    write(site.path, Record(origin=other_origin, contracts={}, intents=[]))
    nonce = site.next_nonce()

    assert site.run(renew=True) == addresses

    assert site.next_nonce() == nonce
    assert read(site.path) == record


def test_renamed_files_are_never_replaced(site):
    """The first and the third file have the same origin, so the name of the third gets a suffix."""
    names, records = [], []
    for digit in ("1", "2", "1"):
        origin = Origin(chain_id=1, genesis="0xabcdef0123", admin="0x" + digit * 40)
        record = Record(origin=origin, contracts={}, intents=[])
        write(site.path, record)
        renamed_file = rename_file(site.path, record)
        names.append(renamed_file.name)
        records.append(record)

    prefix = "deployment.json.1-abcdef01-"
    assert names == [f"{prefix}11111111", f"{prefix}22222222", f"{prefix}11111111-2"]
    for name, record in zip(names, records, strict=True):
        assert read(site.path.with_name(name)) == record


def test_unused_supply_is_reported(site):
    """An interrupted run has created Credit with a supply. Later runs request another supply.

    In the first of the later runs, the creation of Credit is still pending. In the second, it has
    been mined. Each of these two runs reports that it does not use the requested supply.
    """
    site.chain.anvil.rpc("evm_setAutomine", False)
    site.crash(1, sent=True)
    note = f"Credit was created with {COIN} wei by an earlier run"

    site.deployment(site.node(MiningNode)).run(operator=OPERATOR.address, supply=5)
    assert site.count_reports(note) == 1
    site.deployment().run(operator=OPERATOR.address, supply=5)
    assert site.count_reports(note) == 2

    site.check(site.run())
    assert site.count_reports(note) == 2


def test_deployment_file_of_an_earlier_release_is_accepted(site):
    addresses = site.run()
    site.drop_intents()

    assert site.run() == addresses
    assert site.next_nonce() == STEP_COUNT


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", '{"chain_id": 1, "genesis": "", "admin": "", "contracts": {"Credit": "x"}}'],
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


def test_deployment_with_a_contract_of_another_release_is_not_continued(site):
    site.crash(3, sent=True)
    credit = address_of(ADMIN.address, 0)
    site.chain.anvil.rpc("anvil_setCode", credit, "0x6001")

    with pytest.raises(ConfigError, match=f"Credit at {credit} is of another release"):
        site.run()

    assert site.next_nonce() == 3


@pytest.mark.parametrize("coins", [0, 10**12])  # no coins, and too few coins
def test_wallet_that_cannot_pay_sends_nothing(site, coins):
    site.chain.anvil.rpc("anvil_setBalance", ADMIN.address, hex(coins))

    with pytest.raises(ConfigError, match="cannot pay for the deployment") as refusal:
        site.run()

    assert f"the wallet has {coins} wei" in refusal.value.detail
    assert site.next_nonce() == 0
    assert not site.path.exists()


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


@pytest.mark.parametrize("nonce", [0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x123456])
def test_address_of_a_contract_is_computed_before_its_creation(site, nonce):
    site.chain.anvil.rpc("anvil_setNonce", ADMIN.address, hex(nonce))

    receipt = DirectSender(site.chain.node, ADMIN).transact(
        "", "0x600160005260016000f3", name="contract with one byte of code"
    )

    assert receipt["contractAddress"].lower() == address_of(ADMIN.address, nonce)


def test_title_of_an_empty_transfer_is_that_of_earlier_releases():
    """An interrupted deployment finds its transactions in the deployment file by their titles."""
    step = filler_step(7, "0x" + "11" * 20)

    assert step.title == "nonce 7 is used, which nothing else waits with"
