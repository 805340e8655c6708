# SPDX-License-Identifier: Apache-2.0
"""Deployments on a real chain."""

from __future__ import annotations

import json

import pytest
from tests.adapters.chain.deploying import ADMIN, OPERATOR, STEPS, MiningNode
from tests.devnet import COIN

from gridstead.adapters.chain.blueprint import address_of
from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.deployment_file import Origin, Record, read, set_aside, write
from gridstead.adapters.chain.direct import DirectSender
from gridstead.adapters.chain.inspection import Inspector
from gridstead.adapters.chain.steps import role_id
from gridstead.domain.contract_checks import FindingKind, check_contracts
from gridstead.errors import ConfigError


def test_a_whole_set_is_deployed_and_wired(site):
    addresses = site.run()

    site.check(addresses)
    found = find_contracts(site.chain.node, addresses["MetaScheduler"])
    assert Customer(site.chain.node, found, ADMIN).balance() == COIN
    assert len([line for line in site.told if "done in block" in line]) == STEPS
    assert site.told[0] == f"[1/{STEPS}] sending: creation of Credit"


def test_a_second_run_sends_nothing_and_leaves_the_file(site):
    addresses, before = site.run(), site.path.stat()
    height, lines = site.chain.node.ask("eth_blockNumber"), len(site.told)

    assert site.run() == addresses

    assert (site.chain.node.ask("eth_blockNumber"), len(site.told)) == (height, lines)
    assert (site.path.stat().st_mtime_ns, site.path.stat().st_ino) == (
        before.st_mtime_ns,
        before.st_ino,
    )


def test_a_plan_says_what_will_be_sent_and_where_it_will_be(site):
    steps = site.plan()

    assert not site.path.exists()
    assert (site.used(), len(steps)) == (0, STEPS)
    assert [one.nonce for one in steps] == list(range(STEPS))
    addresses = site.run()
    assert {one.contract: one.creates for one in steps if one.creates} == addresses
    sent = [read(site.path).intent(one.title) for one in steps]
    assert [one.nonce for one in sent] == list(range(STEPS))
    for step, intent in zip(steps, sent, strict=True):
        mined = site.chain.anvil.rpc("eth_getTransactionByHash", intent.hashes[-1])
        assert (mined["input"], (mined["to"] or "").lower()) == (step.data, step.to)


def test_a_plan_in_the_middle_keeps_what_was_meant(site):
    site.crash(7, sent=False)

    steps = site.plan()

    assert [one.nonce for one in steps] == list(range(6, STEPS))
    before = site.path.read_bytes()
    assert site.plan() == steps
    assert site.path.read_bytes() == before


def test_the_gas_of_a_plan_is_the_nodes_where_it_can_know_it(site):
    deployment = site.deployment()
    steps = deployment.with_gas(deployment.plan_steps(operator=OPERATOR.address, supply=COIN))

    assert [one.gas is not None for one in steps] == [bool(one.creates) for one in steps]
    assert all(100_000 < one.gas < 10_000_000 for one in steps if one.gas is not None)


@pytest.mark.parametrize("wrong", ["chain_id", "genesis", "admin"])
def test_the_file_of_another_chain_or_administrator_is_refused(site, wrong):
    site.run()
    document = json.loads(site.path.read_text())
    site.path.write_text(
        json.dumps(document | {wrong: 1 if wrong == "chain_id" else "0x" + "77" * 32})
    )

    with pytest.raises(ConfigError, match=f"its {wrong} is") as refusal:
        site.deployment()

    assert "another file" in refusal.value.hint
    assert site.used() == STEPS


def test_a_development_chain_that_began_anew_gets_a_new_set_and_the_old_file_is_kept(site):
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


def test_a_development_chain_that_is_back_has_its_contracts_still(site):
    """Another chain was in its place meanwhile, for which another set was deployed."""
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


def test_every_file_that_is_set_aside_is_kept(site):
    """Also of one chain with several administrators, and of the same administrator once more."""
    origins = [
        Origin(chain_id=1, genesis="0xabcdef0123", admin="0x" + digit * 40) for digit in "121"
    ]
    records = [Record(origin=one, contracts={}, intents=[]) for one in origins]
    names = []
    for record in records:
        write(site.path, record)
        names.append(set_aside(site.path, record))

    assert [one.name.removeprefix("deployment.json.1-abcdef01-") for one in names] == [
        "11111111",
        "22222222",
        "11111111-2",
    ]
    assert [read(one) for one in names] == records


def test_another_supply_than_credit_was_created_with_is_told(site):
    """When it waits in the pool, and when it is there."""
    site.chain.anvil.rpc("evm_setAutomine", False)
    site.crash(1, sent=True)
    note = f"Credit was created with {COIN} wei by an earlier run"

    site.deployment(site.node(MiningNode)).run(operator=OPERATOR.address, supply=5)
    assert sum(line.startswith(note) for line in site.told) == 1
    site.deployment().run(operator=OPERATOR.address, supply=5)
    assert sum(line.startswith(note) for line in site.told) == 2

    site.check(site.run())
    assert sum(line.startswith(note) for line in site.told) == 2


def test_a_file_of_an_earlier_release_is_taken_as_it_is(site):
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
def test_a_broken_file_is_the_operators_matter(site, content):
    site.path.write_text(content)

    with pytest.raises(ConfigError, match="cannot read the deployment") as refusal:
        site.deployment()

    assert refusal.value.hint


def test_a_folder_that_is_not_there_is_told_before_anything_is_sent(site):
    site.path = site.path.parent / "absent" / "deployment.json"

    with pytest.raises(ConfigError, match="cannot write the deployment"):
        site.run()

    assert site.used() == 0


def test_a_set_is_not_made_of_two_releases(site):
    site.crash(3, sent=True)
    credit = address_of(ADMIN.address, 0)
    site.chain.anvil.rpc("anvil_setCode", credit, "0x6001")

    with pytest.raises(ConfigError, match=f"Credit at {credit} is of another release"):
        site.run()

    assert site.used() == 3


@pytest.mark.parametrize("coins", [0, 10**12])
def test_a_wallet_that_cannot_pay_for_all_begins_nothing(site, coins):
    site.chain.anvil.rpc("anvil_setBalance", ADMIN.address, hex(coins))

    with pytest.raises(ConfigError, match="cannot pay for the deployment") as refusal:
        site.run()

    assert f"the wallet has {coins} wei" in refusal.value.detail
    assert site.used() == 0
    assert not site.path.exists()


def test_what_is_missing_in_the_wiring_is_done_again(site):
    addresses = site.run()
    revoke = find_contracts(site.chain.node, addresses["MetaScheduler"]).providers.data(
        "revokeRole", role_id("METASCHEDULER_CONTRACT_ROLE"), addresses["MetaScheduler"]
    )
    DirectSender(site.chain.node, ADMIN).transact(
        addresses["ProviderManager"], revoke, name="revokeRole"
    )

    assert [one.function for one in site.plan()] == ["grantRole"]
    assert site.run() == addresses

    assert site.used() == STEPS + 2
    contracts = find_contracts(site.chain.node, addresses["MetaScheduler"])
    found = check_contracts(
        Inspector(site.chain.node, contracts, report=site.told.append).inspect()
    )
    assert [one for one in found if one.kind is not FindingKind.NOTE] == []


@pytest.mark.parametrize("nonce", [0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x123456])
def test_the_address_of_a_contract_is_known_before_it_is_created(site, nonce):
    site.chain.anvil.rpc("anvil_setNonce", ADMIN.address, hex(nonce))

    receipt = DirectSender(site.chain.node, ADMIN).transact(
        "", "0x600160005260016000f3", name="a byte"
    )

    assert receipt["contractAddress"].lower() == address_of(ADMIN.address, nonce)
