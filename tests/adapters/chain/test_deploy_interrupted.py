# SPDX-License-Identifier: Apache-2.0
"""Deployments of the contracts on a real chain that are interrupted and started again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.adapters.chain.deploying import (
    ADMIN,
    CREATION_COUNT,
    OPERATOR,
    SEND_METHOD,
    STEP_COUNT,
    CrashingNode,
    MiningNode,
    has_method,
    planned_addresses,
)
from tests.fakes.crash import Crash

from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import create_wallet
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.errors import ChainUnavailable, TransactionReverted

COMMAND = Path(sys.executable).with_name("gridstead")
# The first and the last creation of a contract, the first change, and the seal.
POSITIONS = (1, CREATION_COUNT, CREATION_COUNT + 1, STEP_COUNT)
KILLS = 20


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("sent", [True, False])
def test_next_run_continues_after_the_last_sent_transaction(site, position, sent):
    site.crash(position, sent=sent)

    assert site.next_nonce() == position - (not sent)
    site.check(site.run())


def test_a_run_finishes_a_deployment_that_was_interrupted_at_every_step(site):
    for step in range(STEP_COUNT):
        if step % 2:
            site.crash(1, sent=False)
        site.crash(1, sent=True)

    site.check(site.run())


@pytest.mark.parametrize("position", POSITIONS)
def test_next_run_waits_for_a_pending_transaction(site, position):
    site.leave_pending(position)

    site.check(site.run(site.node(MiningNode)))


class CountingNode(Node):
    """A node that counts the requests."""

    count = 0

    def batch(self, requests):
        self.count += 1
        return super().batch(requests)


class KillingNode(Node):
    """A node whose process kills itself (-9) before or after request number ``position``."""

    def __init__(self, url, position, *, sent):
        super().__init__(url)
        self._requests_before_kill = position
        self._is_sent = sent

    def batch(self, requests):
        self._requests_before_kill -= 1
        if self._requests_before_kill > 0:
            return super().batch(requests)
        if self._is_sent:
            super().batch(requests)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def deploy_in_a_process_that_is_killed(site, position, *, sent):
    """Deploy in a child process that kills itself. Return whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            site.run(KillingNode(site.chain.anvil.url, position, sent=sent))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, -signal.SIGKILL}
    return code != 0


def test_deployment_killed_at_20_random_moments_gives_one_set_at_the_same_addresses(site):
    """When a deployment is complete before 20 kills, the next one starts on the chain of before."""
    rng = random.Random(24)
    before = site.chain.anvil.rpc("evm_snapshot")
    node = site.node(CountingNode)
    site.check(site.run(node))
    kills, is_complete = 0, True
    while kills < KILLS:
        if is_complete:
            site.chain.anvil.rpc("evm_revert", before)
            before = site.chain.anvil.rpc("evm_snapshot")
            site.path.unlink()
        position, is_sent = rng.randint(1, node.count), rng.random() < 0.5
        is_killed = deploy_in_a_process_that_is_killed(site, position, sent=is_sent)
        site.wait_for_mining()
        is_complete = not is_killed
        kills += is_killed
        if is_complete:
            site.check(planned_addresses())

    site.check(site.run())


def test_contract_that_another_account_creates_counts_as_done(site):
    """Anybody can create the contracts of a set, but only at their addresses and for its admin."""
    site.chain.anvil.fund(OPERATOR.address)

    class RacingNode(Node):
        """A node on which OPERATOR creates a contract before ADMIN's transaction arrives."""

        is_racing = False

        def batch(self, requests):
            if has_method(requests, SEND_METHOD) and not self.is_racing:
                self.is_racing = True
                step = site.plan_steps()[0]
                DirectSender(self, OPERATOR).transact(step.to, step.data, name=step.title)
            return super().batch(requests)

    site.check(site.run(site.node(RacingNode)))


def test_contracts_lost_in_a_reorg_are_created_again_at_their_old_addresses(site):
    addresses = site.run()
    site.chain.anvil.reorg(STEP_COUNT - 2)
    assert site.next_nonce() < STEP_COUNT

    assert site.run() == addresses

    site.check(addresses)


def test_next_run_finishes_the_deployment_of_a_killed_process(site, tmp_path):
    (tmp_path / "password").write_text("a secret\n")
    create_wallet(tmp_path / "key", tmp_path / "password", key=(66).to_bytes(32), iterations=2)
    site.crash(5, sent=True)
    site.chain.anvil.rpc("evm_setAutomine", False)
    options = {
        "rpc-url": site.chain.anvil.url,
        "admin-keystore": tmp_path / "key",
        "admin-password-file": tmp_path / "password",
        "deployment": site.path,
        "meta-scheduler": OPERATOR.address,
        "supply": "1",
    }
    command = [COMMAND, "contracts", "deploy"]
    for name, value in options.items():
        command.append(f"--{name}={value}")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while site.next_nonce("pending") < CREATION_COUNT:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    site.chain.anvil.rpc("evm_setAutomine", True)
    site.chain.anvil.mine()

    site.check(site.run())


def test_run_fails_if_another_program_uses_every_nonce_of_the_wallet(site):
    with pytest.raises(ChainUnavailable, match="creation of Credit") as error:
        site.run(site.node(BusyNode))

    assert "another program" in error.value.detail
    assert not any(map(site.has_code, planned_addresses().values()))


class BusyNode(Node):
    """A node on which another program uses each nonce before our transaction arrives."""

    is_other_program_sending = False

    def batch(self, requests):
        if has_method(requests, SEND_METHOD) and not self.is_other_program_sending:
            self.is_other_program_sending = True
            DirectSender(self, ADMIN).transfer(OPERATOR.address, 1)
            self.is_other_program_sending = False
        return super().batch(requests)


class LowEstimateNode(Node):
    """A node whose gas estimate for the creation of a contract is too low."""

    def batch(self, requests):
        answers = super().batch(requests)
        for index, (method, params) in enumerate(requests):
            if method == "eth_estimateGas" and len(params[0]["data"]) > 2000:
                answers[index] = hex(300_000)
        return answers


class CrashingLowEstimateNode(LowEstimateNode, CrashingNode):
    """A CrashingNode whose gas estimate for the creation of a contract is too low."""


def test_failed_creation_is_reported_and_the_next_run_repeats_it(site):
    with pytest.raises(TransactionReverted, match="creation of Credit"):
        site.run(site.node(LowEstimateNode))

    site.check(site.run(), other_transactions=1)


def test_next_run_repeats_a_creation_that_failed_after_a_crash(site):
    with pytest.raises(Crash):
        site.run(site.node(CrashingLowEstimateNode, 1, sent=True))
    site.wait_for_mining()

    site.check(site.run(), other_transactions=1)
