# SPDX-License-Identifier: Apache-2.0
"""Deployments of the contracts on a real chain that are interrupted at each step."""

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
    SEND_METHOD,
    STEP_COUNT,
    CrashingNode,
    MiningNode,
    has_method,
)
from tests.devnet import COIN
from tests.fakes.crash import Crash

from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import create_wallet
from gridstead.adapters.contracts import deploy as deploying
from gridstead.adapters.contracts.blueprint import BLUEPRINT, address_of
from gridstead.adapters.contracts.deployment_file import InUse, locked, read
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.errors import ChainUnavailable, TransactionReverted

COMMAND = Path(sys.executable).with_name("gridstead")


@pytest.mark.parametrize("position", range(1, STEP_COUNT + 1))
def test_next_run_continues_after_the_last_sent_transaction(site, position):
    site.crash(position, sent=True)

    assert site.next_nonce() == position
    site.check(site.run())


@pytest.mark.parametrize("position", [1, 4, 6, 7, STEP_COUNT])
def test_next_run_sends_a_transaction_that_was_signed_but_not_sent(site, position):
    site.crash(position, sent=False)

    assert site.next_nonce() == position - 1
    site.check(site.run())


def test_a_run_finishes_a_deployment_that_was_interrupted_at_every_step(site):
    for step in range(STEP_COUNT):
        if step % 2:
            site.crash(1, sent=False)
        site.crash(1, sent=True)

    site.check(site.run())


@pytest.mark.parametrize("position", range(1, STEP_COUNT + 1))
def test_next_run_waits_for_a_pending_transaction(site, position):
    site.leave_pending(position)
    hashes = read(site.path).intents[-1].hashes

    addresses = site.run(site.node(MiningNode))

    site.check(addresses)
    assert read(site.path).intents[position - 1].hashes == hashes


@pytest.mark.parametrize("position", range(1, STEP_COUNT + 1))
def test_transaction_mined_during_the_next_run_is_found(site, position):
    """The pending transaction is mined between the plan of the next run and its gas estimate."""
    site.leave_pending(position)
    hashes = read(site.path).intents[-1].hashes

    site.check(site.run(site.node(NodeThatMinesBeforeEstimates)))
    assert read(site.path).intents[position - 1].hashes[0] == hashes[0]


class NodeThatMinesBeforeEstimates(MiningNode):
    """A MiningNode that also mines a block before each gas estimate after the plan."""

    is_planned = False

    def batch(self, requests):
        if self.is_planned and has_method(requests, "eth_estimateGas"):
            Node.batch(self, [("evm_mine", [])])
        if has_method(requests, "eth_getBalance"):  # the last request of the plan
            self.is_planned = True
        return super().batch(requests)


def test_replacement_of_an_underpriced_transaction_uses_the_same_nonce(site):
    site.chain.anvil.rpc("evm_setAutomine", False)
    site.crash(1, sent=True)
    (old_intent,) = read(site.path).intents
    site.chain.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(old_intent.max_fee * 10))
    site.chain.anvil.mine()

    addresses = site.run(site.node(MiningNode))

    site.check(addresses)
    new_intent = read(site.path).intent("creation of Credit")
    assert (new_intent.nonce, len(new_intent.hashes)) == (old_intent.nonce, 2)
    # Nodes accept a replacement only if its fees are at least an eighth higher.
    assert new_intent.max_fee > old_intent.max_fee * 9 // 8


def test_step_gets_another_nonce_if_another_program_used_its_nonce(site):
    """Another program has created a contract at the address that was planned for our contract."""
    site.crash(2, sent=False)
    creation_code = "0x600160005260016000f3"  # creates a contract with one byte of code
    receipt = DirectSender(site.chain.node, ADMIN).transact(
        "", creation_code, name="another program's"
    )
    other_address = receipt["contractAddress"].lower()
    assert other_address == address_of(ADMIN.address, 1)

    addresses = site.run()

    assert other_address not in addresses.values()
    assert len(set(addresses.values())) == len(BLUEPRINT)
    assert site.next_nonce() == STEP_COUNT + 1


@pytest.mark.parametrize("position", [1, 7])
@pytest.mark.parametrize("is_lost", [False, True])
def test_nonce_gap_of_a_lost_transaction_is_filled(site, position, is_lost):
    """Another program sends a transaction, and our transaction gets the next nonce.

    The node drops the transaction of the other program. If ``is_lost``, it also drops ours.
    """
    for _ in range(position - 1):
        site.crash(1, sent=True)
    site.chain.anvil.rpc("evm_setAutomine", False)
    lost_nonce = site.next_nonce()
    other_transaction = DirectSender(site.chain.node, ADMIN).draft(
        Payload(to=OPERATOR.address, data="0x", gas=None),
        nonce=lost_nonce,
        name="another program's",
    )
    site.chain.anvil.rpc("eth_sendRawTransaction", other_transaction.raw)
    site.crash(1, sent=True)
    intent = read(site.path).intents[-1]
    assert intent.nonce == lost_nonce + 1
    site.chain.anvil.rpc("anvil_dropTransaction", other_transaction.hash)
    if is_lost:
        for tx_hash in intent.hashes:
            site.chain.anvil.rpc("anvil_dropTransaction", tx_hash)
    assert site.plan_steps()[0].nonce == lost_nonce

    addresses = site.run(site.node(MiningNode))

    site.check(addresses, other_transactions=1)
    assert read(site.path).intent(intent.step).nonce == lost_nonce + 1


def test_next_run_finds_created_contracts_without_receipts(site):
    """Some nodes delete old receipts."""
    site.crash(6, sent=True)
    deleted_hashes = set()
    for intent in read(site.path).intents:
        deleted_hashes.update(intent.hashes)

    class ForgetfulNode(Node):
        """A node without the receipts of the interrupted run."""

        def batch(self, requests):
            answers = super().batch(requests)
            for index, (method, params) in enumerate(requests):
                if method == "eth_getTransactionReceipt" and params[0] in deleted_hashes:
                    answers[index] = None
            return answers

    site.check(site.run(site.node(ForgetfulNode)))


def test_contracts_lost_in_a_reorg_are_created_again_at_their_old_addresses(site):
    addresses = site.run()
    site.chain.anvil.reorg(STEP_COUNT - 2)
    assert site.next_nonce() < STEP_COUNT

    assert site.run() == addresses

    site.check(addresses)


def test_next_run_finishes_the_deployment_of_a_killed_process(site, tmp_path):
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
    for name, value in options.items():
        command.append(f"--{name}={value}")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while site.next_nonce("pending") < 6:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    site.chain.anvil.rpc("evm_setAutomine", True)
    site.chain.anvil.mine()

    site.check(site.run())


def test_second_concurrent_run_is_refused(site):
    with locked(site.path), pytest.raises(InUse, match="another run"):
        site.run()

    assert site.next_nonce() == 0


def test_run_fails_if_another_program_uses_every_nonce_of_the_wallet(site, monkeypatch):
    monkeypatch.setattr(deploying, "ATTEMPTS", 3)

    with pytest.raises(ChainUnavailable, match="creation of Credit") as error:
        site.run(site.node(BusyNode))

    assert "another program" in error.value.detail
    assert site.created_contracts() == []


class BusyNode(Node):
    """A node on which another program uses each nonce before our transaction arrives."""

    is_other_program_sending = False

    def batch(self, requests):
        if has_method(requests, SEND_METHOD) and not self.is_other_program_sending:
            self.is_other_program_sending = True
            DirectSender(self, ADMIN).transfer(OPERATOR.address, 1)
            self.is_other_program_sending = False
        return super().batch(requests)


def test_deployment_opened_before_another_run_deploys_nothing(site):
    deployment = site.deployment()
    addresses = site.run()

    assert deployment.run(operator=OPERATOR.address, supply=COIN) == addresses

    site.check(addresses)


class LowEstimateNode(Node):
    """A node whose gas estimate for the creation of a contract is too low."""

    def batch(self, requests):
        answers = super().batch(requests)
        for index, (method, params) in enumerate(requests):
            if method == "eth_estimateGas" and "to" not in params[0]:
                answers[index] = hex(600_000)
        return answers


class CrashingLowEstimateNode(LowEstimateNode, CrashingNode):
    """A CrashingNode whose gas estimate for the creation of a contract is too low."""


def test_failed_creation_is_reported_and_the_next_run_repeats_it(site):
    with pytest.raises(TransactionReverted, match="creation of Credit"):
        site.run(site.node(LowEstimateNode))
    assert (site.created_contracts(), read(site.path).intents) == ([], [])

    site.check(site.run(), other_transactions=1)


def test_next_run_repeats_a_creation_that_failed_after_a_crash(site):
    with pytest.raises(Crash):
        site.run(site.node(CrashingLowEstimateNode, 1, sent=True))
    site.wait_for_mining()

    site.check(site.run(), other_transactions=1)
