# SPDX-License-Identifier: Apache-2.0
"""Deployments on a real chain, interrupted at every step."""

from __future__ import annotations

import itertools
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

from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import create_wallet
from gridstead.adapters.contracts import deploy as deploying
from gridstead.adapters.contracts.blueprint import BLUEPRINT, address_of
from gridstead.adapters.contracts.deployment_file import InUse, alone, read
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.adapters.transactions.encode import Payload
from gridstead.errors import ChainUnavailable, TransactionReverted

COMMAND = Path(sys.executable).with_name("gridstead")


@pytest.mark.parametrize("position", range(1, STEPS + 1))
def test_run_that_dies_after_a_transaction_is_finished_by_the_next_run(site, position):
    site.crash(position, sent=True)

    assert site.used() == position
    site.check(site.run())


@pytest.mark.parametrize("position", [1, 4, 6, 7, STEPS])
def test_run_that_dies_before_a_transaction_is_finished_by_the_next_run(site, position):
    site.crash(position, sent=False)

    assert site.used() == position - 1
    site.check(site.run())


def test_runs_that_die_at_every_step_are_finished(site):
    for step in range(STEPS):
        site.crash(1, sent=step % 2 == 0)
        site.crash(1, sent=True) if step % 2 else None

    site.check(site.run())


@pytest.mark.parametrize("position", range(1, STEPS + 1))
def test_pending_transaction_is_waited_for(site, position):
    for _ in range(position - 1):
        site.crash(1, sent=True)
    site.chain.anvil.rpc("evm_setAutomine", False)
    site.crash(1, sent=True)
    hashes = read(site.path).intents[-1].hashes

    addresses = site.run(site.node(MiningNode))

    site.check(addresses)
    assert read(site.path).intents[position - 1].hashes == hashes


@pytest.mark.parametrize("position", range(1, STEPS + 1))
def test_transaction_mined_during_the_next_run_is_found(site, position):
    """The plan is made before the block is mined, and the gas is estimated after it."""
    for _ in range(position - 1):
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
    assert read(site.path).intents[position - 1].hashes[0] == hashes[0]


def test_underpriced_transaction_is_replaced_with_the_same_nonce(site):
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


def test_nonce_used_by_another_program_is_detected(site):
    """Even if that program has created a contract at an address that was planned for ours."""
    site.crash(2, sent=False)
    other = DirectSender(site.chain.node, ADMIN).transact(
        "", "0x600160005260016000f3", name="another program's"
    )

    addresses = site.run()

    assert other["contractAddress"].lower() == address_of(ADMIN.address, 1)
    assert other["contractAddress"].lower() not in addresses.values()
    assert len(set(addresses.values())) == len(BLUEPRINT)
    assert site.used() == STEPS + 1


@pytest.mark.parametrize("position", [1, 7])
@pytest.mark.parametrize("is_lost", [False, True])
def test_nonce_gap_of_a_lost_transaction_is_filled(site, position, is_lost):
    """Nothing is deployed twice, whether our transaction is pending after the gap or also lost."""
    for _ in range(position - 1):
        site.crash(1, sent=True)
    site.chain.anvil.rpc("evm_setAutomine", False)
    before = site.used()
    other = DirectSender(site.chain.node, ADMIN).draft(
        Payload(to=OPERATOR.address, data="0x", gas=None), nonce=before, name="another program's"
    )
    site.chain.anvil.rpc("eth_sendRawTransaction", other.raw)
    site.crash(1, sent=True)
    intent = read(site.path).intents[-1]
    assert intent.nonce == before + 1
    lost_hashes = intent.hashes if is_lost else ()
    for tx_hash in (other.hash, *lost_hashes):
        site.chain.anvil.rpc("anvil_dropTransaction", tx_hash)
    assert site.plan_steps()[0].nonce == before

    addresses = site.run(site.node(MiningNode))

    site.check(addresses, others=1)
    assert read(site.path).intent(intent.step).nonce == before + 1


def test_created_contracts_are_found_without_receipts(site):
    """For example from a node that deletes old receipts."""
    site.crash(6, sent=True)

    class ForgetfulNode(Node):
        def batch(self, requests):
            answers = super().batch(requests)
            for index, (method, params) in enumerate(requests):
                if method == "eth_getTransactionReceipt" and params[0] in lost:
                    answers[index] = None
            return answers

    hashes = [intent.hashes for intent in read(site.path).intents]
    lost = set(itertools.chain.from_iterable(hashes))

    site.check(site.run(site.node(ForgetfulNode)))


def test_contracts_lost_in_a_reorg_are_created_at_the_same_addresses(site):
    addresses = site.run()
    site.chain.anvil.reorg(STEPS - 2)
    assert site.used() < STEPS

    assert site.run() == addresses

    site.check(addresses)


def test_killed_process_is_continued_by_the_next_run(site, tmp_path):
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
    command = [COMMAND, "contracts", "deploy"]
    command += [f"--{key}={value}" for key, value in options.items()]
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


def test_second_concurrent_run_is_refused(site):
    with alone(site.path), pytest.raises(InUse, match="another run"):
        site.run()

    assert site.used() == 0


def test_wallet_in_constant_use_by_another_program_is_an_error(site, monkeypatch):
    monkeypatch.setattr(deploying, "ATTEMPTS", 3)

    class BusyNode(Node):
        def batch(self, requests):
            if any(method == SENDING for method, _ in requests) and not self.inside:
                self.inside = True
                DirectSender(self, ADMIN).transfer(OPERATOR.address, 1)
                self.inside = False
            return super().batch(requests)

        inside = False

    with pytest.raises(ChainUnavailable, match="creation of Credit") as error:
        site.run(site.node(BusyNode))

    assert "another program" in error.value.detail
    assert site.created() == []


def test_run_after_another_run_deploys_nothing(site):
    late = site.deployment()
    addresses = site.run()

    assert late.run(operator=OPERATOR.address, supply=COIN) == addresses

    site.check(addresses)


class StingyNode(Node):
    """A node whose gas estimate of a creation is too low."""

    def batch(self, requests):
        answers = super().batch(requests)
        for index, (method, params) in enumerate(requests):
            if method == "eth_estimateGas" and "to" not in params[0]:
                answers[index] = hex(600_000)
        return answers


class StingyMortalNode(StingyNode, MortalNode):
    """The same, with a client that dies."""


def test_failed_creation_is_reported_and_repeated(site):
    with pytest.raises(TransactionReverted, match="creation of Credit"):
        site.run(site.node(StingyNode))
    assert (site.created(), read(site.path).intents) == ([], [])

    site.check(site.run(), others=1)


def test_creation_that_failed_after_a_crash_is_repeated(site):
    with pytest.raises(Crash):
        site.run(site.node(StingyMortalNode, 1, sent=True))
    site.settle()

    site.check(site.run(), others=1)
