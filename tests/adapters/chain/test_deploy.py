# SPDX-License-Identifier: Apache-2.0
"""Deployments on a real chain."""

from __future__ import annotations

import json

import pytest
from tests.adapters.chain.deploying import ADMIN, OPERATOR, STEPS, MiningNode
from tests.devnet import COIN

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.contracts.blueprint import address_of
from gridstead.adapters.contracts.deployment_file import Origin, Record, read, set_aside, write
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.adapters.contracts.steps import role_id
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.diagnostic import exit_code
from gridstead.errors import ConfigError


def test_complete_set_is_deployed_with_its_roles(site):
    addresses = site.run()

    site.check(addresses)
    contracts = find_contracts(site.chain.node, addresses["MetaScheduler"])
    assert Customer(site.chain.node, contracts, ADMIN).balance() == COIN
    assert len([line for line in site.reported if "done in block" in line]) == STEPS
    assert site.reported[0] == f"[1/{STEPS}] sending: creation of Credit"


def test_second_run_sends_nothing_and_keeps_the_file(site):
    addresses, before = site.run(), site.path.stat()
    height, lines = site.chain.node.ask("eth_blockNumber"), len(site.reported)

    assert site.run() == addresses

    assert (site.chain.node.ask("eth_blockNumber"), len(site.reported)) == (height, lines)
    assert (site.path.stat().st_mtime_ns, site.path.stat().st_ino) == (
        before.st_mtime_ns,
        before.st_ino,
    )


def test_plan_has_the_transactions_and_addresses(site):
    steps = site.plan_steps()

    assert not site.path.exists()
    assert (site.used(), len(steps)) == (0, STEPS)
    assert [step.nonce for step in steps] == list(range(STEPS))
    addresses = site.run()
    assert {step.contract: step.creates for step in steps if step.creates} == addresses
    intents = [read(site.path).intent(step.title) for step in steps]
    assert [intent.nonce for intent in intents] == list(range(STEPS))
    for step, intent in zip(steps, intents, strict=True):
        mined = site.chain.anvil.rpc("eth_getTransactionByHash", intent.hashes[-1])
        assert (mined["input"], (mined["to"] or "").lower()) == (step.data, step.to)


def test_plan_of_an_interrupted_run_keeps_its_nonces(site):
    site.crash(7, sent=False)

    steps = site.plan_steps()

    assert [step.nonce for step in steps] == list(range(6, STEPS))
    before = site.path.read_bytes()
    assert site.plan_steps() == steps
    assert site.path.read_bytes() == before


def test_plan_has_gas_estimates_of_creations(site):
    deployment = site.deployment()
    steps = deployment.with_gas(deployment.plan_steps(operator=OPERATOR.address, supply=COIN))

    assert [step.gas is not None for step in steps] == [bool(step.creates) for step in steps]
    assert all(100_000 < step.gas < 10_000_000 for step in steps if step.gas is not None)


@pytest.mark.parametrize("wrong", ["chain_id", "genesis", "admin"])
def test_file_of_another_chain_or_administrator_is_refused(site, wrong):
    site.run()
    document = json.loads(site.path.read_text())
    site.path.write_text(
        json.dumps(document | {wrong: 1 if wrong == "chain_id" else "0x" + "77" * 32})
    )

    with pytest.raises(ConfigError, match=f"its {wrong} is") as refusal:
        site.deployment()

    assert "another file" in refusal.value.hint
    assert site.used() == STEPS


def test_renew_deploys_a_new_set_and_renames_the_old_file(site):
    old = {
        "chain_id": 179188,
        "genesis": "0xabcdef0123",
        "admin": ADMIN.address,
        "contracts": {"Credit": "0x" + "99" * 20},
    }
    site.path.write_text(json.dumps(old))

    addresses = site.run(renew=True)

    site.check(addresses)
    aside = f"deployment.json.179188-abcdef01-{ADMIN.address[2:10]}"
    assert json.loads(site.path.with_name(aside).read_text()) == old


def test_renew_restores_the_file_of_a_chain(site):
    """Another chain with another set was used in the meantime."""
    addresses = site.run(renew=True)
    ours = read(site.path)
    set_aside(site.path, ours)
    write(
        site.path,
        Record(origin=Origin(chain_id=1, genesis="0xff", admin="0xee"), contracts={}, intents=[]),
    )
    used = site.used()

    assert site.run(renew=True) == addresses

    assert site.used() == used
    assert read(site.path) == ours


def test_renamed_files_are_never_replaced(site):
    """Also for several administrators of a chain, and for the same administrator again."""
    origins = [
        Origin(chain_id=1, genesis="0xabcdef0123", admin="0x" + digit * 40) for digit in "121"
    ]
    records = [Record(origin=origin, contracts={}, intents=[]) for origin in origins]
    names = []
    for record in records:
        write(site.path, record)
        names.append(set_aside(site.path, record))

    prefix = "deployment.json.1-abcdef01-"
    suffixes = [path.name.removeprefix(prefix) for path in names]
    assert suffixes == ["11111111", "22222222", "11111111-2"]
    assert list(map(read, names)) == records


def test_unused_supply_is_reported(site):
    """While the creation of Credit is pending, and after it is mined."""
    site.chain.anvil.rpc("evm_setAutomine", False)
    site.crash(1, sent=True)
    note = f"Credit was created with {COIN} wei by an earlier run"

    site.deployment(site.node(MiningNode)).run(operator=OPERATOR.address, supply=5)
    assert sum(line.startswith(note) for line in site.reported) == 1
    site.deployment().run(operator=OPERATOR.address, supply=5)
    assert sum(line.startswith(note) for line in site.reported) == 2

    site.check(site.run())
    assert sum(line.startswith(note) for line in site.reported) == 2


def test_file_of_an_earlier_release_is_accepted(site):
    addresses = site.run()
    document = json.loads(site.path.read_text())
    site.path.write_text(
        json.dumps({k: document[k] for k in ("chain_id", "genesis", "admin", "contracts")})
    )

    assert site.run() == addresses
    assert site.used() == STEPS


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

    assert site.used() == 0


def test_set_of_another_release_is_not_completed(site):
    site.crash(3, sent=True)
    credit = address_of(ADMIN.address, 0)
    site.chain.anvil.rpc("anvil_setCode", credit, "0x6001")

    with pytest.raises(ConfigError, match=f"Credit at {credit} is of another release"):
        site.run()

    assert site.used() == 3


@pytest.mark.parametrize("coins", [0, 10**12])
def test_wallet_that_cannot_pay_sends_nothing(site, coins):
    site.chain.anvil.rpc("anvil_setBalance", ADMIN.address, hex(coins))

    with pytest.raises(ConfigError, match="cannot pay for the deployment") as refusal:
        site.run()

    assert f"the wallet has {coins} wei" in refusal.value.detail
    assert site.used() == 0
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

    assert site.used() == STEPS + 2
    contracts = find_contracts(site.chain.node, addresses["MetaScheduler"])
    state = Inspector(site.chain.node, contracts, report=site.reported.append).inspect()
    diagnostics = check_contracts(state)
    assert exit_code(diagnostics) == 0


@pytest.mark.parametrize("nonce", [0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x123456])
def test_address_of_a_contract_is_computed_before_its_creation(site, nonce):
    site.chain.anvil.rpc("anvil_setNonce", ADMIN.address, hex(nonce))

    receipt = DirectSender(site.chain.node, ADMIN).transact(
        "", "0x600160005260016000f3", name="a byte"
    )

    assert receipt["contractAddress"].lower() == address_of(ADMIN.address, nonce)
