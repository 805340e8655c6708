# SPDX-License-Identifier: Apache-2.0
"""Deployments on a real chain, cut short wherever they can be."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.adapters.chain.deploying import (
    ADMIN,
    OPERATOR,
    SENDING,
    STEPS,
    Crash,
    MiningNode,
    MortalNode,
)
from tests.devnet import COIN

from gridstead.adapters.chain import deploy as deploying
from gridstead.adapters.chain.blueprint import BLUEPRINT, address_of
from gridstead.adapters.chain.deployment_file import InUse, alone, read
from gridstead.adapters.chain.direct import DirectSender
from gridstead.adapters.chain.encode import Payload
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import create_wallet
from gridstead.errors import ChainUnavailable, TransactionReverted

COMMAND = Path(sys.executable).with_name("gridstead")


@pytest.mark.parametrize("at", range(1, STEPS + 1))
def test_a_run_that_dies_before_its_transaction_was_written_down_is_finished_by_the_next(site, at):
    site.crash(at, sent=True)

    assert site.used() == at
    site.check(site.run())


@pytest.mark.parametrize("at", [1, 4, 6, 7, STEPS])
def test_a_run_that_dies_before_it_sends_is_finished_by_the_next(site, at):
    site.crash(at, sent=False)

    assert site.used() == at - 1
    site.check(site.run())


def test_a_run_that_dies_at_every_step_is_finished_in_the_end(site):
    for step in range(STEPS):
        site.crash(1, sent=step % 2 == 0)
        site.crash(1, sent=True) if step % 2 else None

    site.check(site.run())


@pytest.mark.parametrize("at", range(1, STEPS + 1))
def test_a_transaction_that_still_waits_in_the_pool_is_waited_for(site, at):
    for _ in range(at - 1):
        site.crash(1, sent=True)
    site.chain.anvil.rpc("evm_setAutomine", False)
    site.crash(1, sent=True)
    hashes = read(site.path).intents[-1].hashes

    addresses = site.run(site.node(MiningNode))

    site.check(addresses)
    assert read(site.path).intents[at - 1].hashes == hashes


@pytest.mark.parametrize("at", range(1, STEPS + 1))
def test_a_transaction_that_is_mined_while_the_next_run_looks_at_it_is_found(site, at):
    """The plan was made before the block, the transaction is estimated after it."""
    for _ in range(at - 1):
        site.crash(1, sent=True)
    site.chain.anvil.rpc("evm_setAutomine", False)
    site.crash(1, sent=True)
    hashes = read(site.path).intents[-1].hashes

    class LateNode(MiningNode):
        def batch(self, requests):
            if any(method == "eth_getTransactionReceipt" for method, _ in requests):
                return super().batch(requests)
            if any(method == "eth_estimateGas" for method, _ in requests) and self.planned:
                Node.batch(self, [("evm_mine", [])])
            self.planned |= any(method == "eth_getBalance" for method, _ in requests)
            return super().batch(requests)

        planned = False

    site.check(site.run(site.node(LateNode)))
    assert read(site.path).intents[at - 1].hashes[0] == hashes[0]


def test_a_transaction_that_became_too_cheap_is_replaced_and_creates_the_same_contract(site):
    site.chain.anvil.rpc("evm_setAutomine", False)
    site.crash(1, sent=True)
    (before,) = read(site.path).intents
    site.chain.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(before.max_fee * 10))
    site.chain.anvil.mine()

    addresses = site.run(site.node(MiningNode))

    site.check(addresses)
    after = read(site.path).intent("creation of Credit")
    assert (after.nonce, len(after.hashes)) == (before.nonce, 2)
    assert after.max_fee > before.max_fee * 9 // 8


def test_a_nonce_that_another_program_took_is_not_mistaken_for_ours(site):
    """Not even if that program created a contract, at the very address that was meant for one of
    ours.
    """
    site.crash(2, sent=False)
    other = DirectSender(site.chain.node, ADMIN).transact(
        "", "0x600160005260016000f3", name="somebody else's"
    )

    addresses = site.run()

    assert other["contractAddress"].lower() == address_of(ADMIN.address, 1)
    assert other["contractAddress"].lower() not in addresses.values()
    assert len(set(addresses.values())) == len(BLUEPRINT)
    assert site.used() == STEPS + 1


@pytest.mark.parametrize("at", [1, 7])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_gap_that_a_lost_transaction_of_another_program_left_is_filled(site, at, is_lost):
    """And nothing is deployed twice, whether ours still waits behind the gap or is lost with it."""
    for _ in range(at - 1):
        site.crash(1, sent=True)
    site.chain.anvil.rpc("evm_setAutomine", False)
    before = site.used()
    other = DirectSender(site.chain.node, ADMIN).draft(
        Payload(to=OPERATOR.address, data="0x", gas=None), nonce=before, name="somebody else's"
    )
    site.chain.anvil.rpc("eth_sendRawTransaction", other.raw)
    site.crash(1, sent=True)
    intent = read(site.path).intents[-1]
    assert intent.nonce == before + 1
    for one in (other.hash, *(intent.hashes if is_lost else ())):
        site.chain.anvil.rpc("anvil_dropTransaction", one)
    assert site.plan()[0].nonce == before

    addresses = site.run(site.node(MiningNode))

    site.check(addresses, others=1)
    assert read(site.path).intent(intent.step).nonce == before + 1


def test_without_receipts_the_code_tells_what_was_created(site):
    """As from a node that keeps receipts for some time only."""
    site.crash(6, sent=True)

    class ForgetfulNode(Node):
        def batch(self, requests):
            answers = super().batch(requests)
            return [
                None if method == "eth_getTransactionReceipt" and params[0] in lost else answer
                for (method, params), answer in zip(requests, answers, strict=True)
            ]

    lost = {one for intent in read(site.path).intents for one in intent.hashes}

    site.check(site.run(site.node(ForgetfulNode)))


def test_contracts_that_a_reorg_took_away_come_back_at_the_same_addresses(site):
    addresses = site.run()
    site.chain.anvil.reorg(STEPS - 2)
    assert site.used() < STEPS

    assert site.run() == addresses

    site.check(addresses)


def test_a_killed_process_leaves_nothing_that_the_next_does_not_find(site, tmp_path):
    (tmp_path / "password").write_text("a secret\n")
    create_wallet(tmp_path / "key", tmp_path / "password", key=(66).to_bytes(32), iterations=2)
    for _ in range(5):
        site.crash(1, sent=True)
    site.chain.anvil.rpc("evm_setAutomine", False)
    options = {
        "rpc-url": site.chain.anvil.url,
        "admin-keystore": tmp_path / "key",
        "admin-password-file": tmp_path / "password",
        "deployment": site.path,
        "meta-scheduler": OPERATOR.address,
        "supply": "0.000000000000000001",
    }
    command = [
        COMMAND,
        "contracts",
        "deploy",
        *(f"--{key}={value}" for key, value in options.items()),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while site.used("pending") < 6:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    site.chain.anvil.rpc("evm_setAutomine", True)
    site.chain.anvil.mine()

    site.check(site.run())


def test_two_runs_at_once_are_one_too_many(site):
    with alone(site.path), pytest.raises(InUse, match="another run"):
        site.run()

    assert site.used() == 0


def test_a_wallet_that_somebody_else_uses_all_the_time_is_told(site, monkeypatch):
    monkeypatch.setattr(deploying, "ATTEMPTS", 3)

    class BusyNode(Node):
        def batch(self, requests):
            if any(method == SENDING for method, _ in requests) and not self.inside:
                self.inside = True
                DirectSender(self, ADMIN).transfer(OPERATOR.address, 1)
                self.inside = False
            return super().batch(requests)

        inside = False

    with pytest.raises(ChainUnavailable, match="creation of Credit") as told:
        site.run(site.node(BusyNode))

    assert "another program" in told.value.detail
    assert site.created() == []


def test_a_run_that_waited_for_another_does_not_deploy_once_more(site):
    late = site.deployment()
    addresses = site.run()

    assert late.run(operator=OPERATOR.address, supply=COIN) == addresses

    site.check(addresses)


class StingyNode(Node):
    """A node that says of a creation that it takes less gas than it does."""

    def batch(self, requests):
        answers = super().batch(requests)
        is_creation = [m == "eth_estimateGas" and "to" not in params[0] for m, params in requests]
        return [
            hex(600_000) if stingy else answer
            for stingy, answer in zip(is_creation, answers, strict=True)
        ]


class StingyMortalNode(StingyNode, MortalNode):
    """The same, and its client dies."""


def test_a_creation_that_failed_is_told_and_done_again(site):
    with pytest.raises(TransactionReverted, match="creation of Credit"):
        site.run(site.node(StingyNode))
    assert (site.created(), read(site.path).intents) == ([], [])

    site.check(site.run(), others=1)


def test_a_creation_that_failed_after_its_run_had_died_is_done_again(site):
    with pytest.raises(Crash):
        site.run(site.node(StingyMortalNode, 1, sent=True))
    site.settle()

    site.check(site.run(), others=1)
