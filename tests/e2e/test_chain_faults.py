# SPDX-License-Identifier: Apache-2.0
"""Tests of an unreachable chain and of a chain reorg: the services recover and repeat no action."""

import contextlib
import time

import pytest
from tests import billing_oracle
from tests.e2e.conftest import CREDIT, has_ended, script_hash, slurm_job_name, wait_until
from tests.e2e.many_customers import one_step
from tests.e2e.signer import RequestSigner

pytestmark = pytest.mark.chain

OUTAGE_S = 60
REORG_BLOCKS = 5
FOLLOWERS = ("supervisor", "meta-scheduler", "ldap-connector", "job-definitions")
BLOCK_RPC_PORT = """
table inet e2e_chain_gone {
    chain input {
        type filter hook input priority -10;
        tcp dport 8545 reject with tcp reset
    }
}
"""


@pytest.fixture
def make_chain_unreachable(lab):
    """Return a context manager that blocks the chain's RPC port. The chain continues to mine."""

    @contextlib.contextmanager
    def chain_unreachable():
        lab.run("control", "nft", "-f", "-", input=BLOCK_RPC_PORT)
        try:
            yield
        finally:
            lab.run("control", "nft", "delete table inet e2e_chain_gone")

    return chain_unreachable


@contextlib.contextmanager
def mining_only_on_request(node):
    """Stop the periodic mining of blocks during the ``with`` block."""
    node.ask("evm_setIntervalMining", 0)
    try:
        yield
    finally:
        # Set anvil's clock to the current time, because a reorg has set it back to the time of the
        # newest block that was not replaced.
        node.ask("evm_setTime", int(time.time()))
        node.ask("evm_setIntervalMining", 1)


@pytest.fixture
def make_signer(grid):
    """Return a function that returns a customer who signs requests in advance."""
    with contextlib.ExitStack() as stack:

        def connect(name):
            customer = RequestSigner(grid.customer(name))
            stack.callback(customer.chain.node.close)
            return customer

        yield connect


def restart_counts(lab):
    """Return the number of restarts by systemd of each service that follows the chain."""
    counts = {}
    for name in FOLLOWERS:
        show = ("systemctl", "show", "-P", "NRestarts", f"gridstead-{name}")
        counts[name] = lab.run("control", *show).stdout.strip()
    return counts


def records_of(lab, name, address):
    return [record for record in lab.sacct(name) if record["user"] == address]


def ended_record(lab, name, address, *, timeout=60):
    """Wait until a customer's job has ended and return its only accounting record."""

    def ended_records():
        return list(filter(has_ended, records_of(lab, name, address)))

    (record,) = wait_until(ended_records, timeout=timeout)
    return record


def test_a_job_that_ends_while_the_chain_is_unreachable_is_settled_later(
    grid, lab, make_chain_unreachable
):
    customer = grid.customer("patient")
    before = restart_counts(lab)
    running_job = grid.submit(customer, "sleep 20")
    grid.wait(customer, running_job, "RUNNING")
    requested_job = grid.submit(customer, "sleep 1")

    with make_chain_unreachable():
        outage_end = time.monotonic() + OUTAGE_S
        record = ended_record(lab, slurm_job_name(running_job), customer.address)
        time.sleep(outage_end - time.monotonic())

    assert record["state"] == "COMPLETED"
    for number in (running_job, requested_job):
        job = grid.wait(customer, number, "FINISHED")
        script_hashes = [script_hash(record) for record in lab.sacct(job["id"])]
        assert script_hashes.count(job["batch_location_hash"]) == 1
        assert grid.check_money(customer, number)["cost_wei"] > 0
    assert restart_counts(lab) == before


def test_after_a_reorg_only_the_new_job_with_a_reused_number_is_paid(grid, lab, make_signer):
    """The reorg removes the blocks with the first customer's request, its match and its claim.

    At the reorg, the job of the first customer is already running in Slurm. The second customer's
    job gets the number of the first customer's job.
    """
    first, second = make_signer("loser"), make_signer("winner")
    dropped_request = first.sign_request(one_step("sleep 300"), credits_=100)
    kept_request = second.sign_request(one_step("sleep 2"), credits_=100)
    addresses = (first.address, second.address)
    credits_before = {address: grid.balance(address) for address in addresses}
    earned_before = grid.balance(grid.provider)
    ledger, node = first.chain.ledger, first.chain.node
    # Wait for REORG_BLOCKS blocks, so that the reorg removes no transaction that was mined before
    # the requests.
    start_block = ledger.head().number + REORG_BLOCKS
    wait_until(lambda: ledger.head().number >= start_block, timeout=30)

    with mining_only_on_request(node):
        request = node.ask("eth_sendRawTransaction", dropped_request)
        node.ask("evm_mine")
        number = job_number(ledger)
        name = slurm_job_name(number)
        # The match and the claim are the next transactions of the grid. Mine a block for each.
        for _ in ("match", "claim"):
            wait_until(lambda: int(node.ask("txpool_status")["pending"], 16), timeout=30)
            node.ask("evm_mine")
        wait_until(
            lambda: "RUNNING" in lab.sh("controller", f"squeue -h -n {name} -o %T"), timeout=60
        )
        # Replace the last blocks by new blocks. Only the last new block has a transaction, the
        # second customer's request.
        node.ask("anvil_reorg", REORG_BLOCKS, [[kept_request, REORG_BLOCKS - 1]])
    assert node.ask("eth_getTransactionReceipt", request) is None

    assert job_number(ledger) == number
    first_record = ended_record(lab, name, first.address)
    assert first_record["state"].startswith("CANCELLED")
    job = grid.wait(second.user, number, "FINISHED")
    second_record = ended_record(lab, name, second.address)
    assert second_record["state"] == "COMPLETED"
    assert script_hash(second_record) == job["batch_location_hash"]
    assert script_hash(first_record) != job["batch_location_hash"]
    grid.check_money(second.user, number, seconds=lab.billed_seconds(second_record))
    assert grid.balance(first.address) == credits_before[first.address]
    assert grid.balance(second.address) == credits_before[second.address] - job["cost_wei"]
    assert grid.balance(grid.provider) == earned_before + billing_oracle.earned(job["cost_wei"])
    assert job["escrow_wei"] == 100 * CREDIT


def job_number(ledger):
    """Return the number of the newest job."""
    head = ledger.head()
    events = ledger.events(first=max(0, head.number - REORG_BLOCKS), end=head)
    (number,) = {event.job_id.number for event in events if event.kind.name == "JOB_REQUESTED"}
    return number
