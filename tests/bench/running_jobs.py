# SPDX-License-Identifier: Apache-2.0
"""A separate chain with many running jobs, for benchmarks of settlements."""

from __future__ import annotations

import math

from tests.devnet import COIN, Devnet
from tests.fakes.ledger import HARDWARE, PRICES, SMALL

from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.customer import JobRequest, to_arguments
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import RpcError
from gridstead.adapters.transactions.account import ChainAccount, to_fields
from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs, Match, Register, SetRunning, Settle
from gridstead.domain.transactions.outbox import Fees

BLOCK_GAS = 30_000_000
JOBS_PER_TRANSACTION = 50
RUN_TIME_S = 30
SCRIPT_ID = "abcdefghijklmnopqrstuv"
ESCROW = 100 * COIN
FEES = Fees(max_fee=100 * 10**9, tip=10**9)
# Gas limits of single transactions.
REQUEST_GAS, REGISTER_GAS, CLAIM_GAS = 400_000, 10**6, 9_000_000
REQUESTS_PER_BLOCK = 50
TRANSACTIONS_PER_REQUEST = 20  # anvil accepts requests of at most 2 MB


class BusyChain:
    """A chain with the grid's contracts. Blocks have 30 M gas and are mined on request.

    Args:
        folder: The folder for the file with the addresses of the deployed contracts.
        report_progress: A function that prints a line of progress.
    """

    def __init__(self, folder, report_progress):
        report_progress("starting a chain with the grid's contracts")
        self.report_progress = report_progress
        self.devnet = Devnet(folder, "--gas-limit", str(BLOCK_GAS))
        self.anvil, self.node, self.contracts = (
            self.devnet.anvil,
            self.devnet.node,
            self.devnet.contracts,
        )
        self.provider = self.devnet.provider
        self.ledger = ChainLedger(self.node, self.contracts)

    def close(self):
        """Stop the chain."""
        self.devnet.close()

    def create_running_jobs(self, count):
        """Create ``count`` running jobs and return the calls that settle the jobs."""
        devnet, grid = self.devnet, self.contracts
        self.send_batches(
            self.provider,
            [[Register(hardware=HARDWARE, prices=PRICES, labels=())]],
            gas=REGISTER_GAS,
        )
        devnet.as_admin.approve_provider(self.provider.address)
        self.anvil.rpc("evm_setAutomine", False)
        self.report_progress(f"requesting {count} jobs")
        self.request_jobs(count)
        self.report_progress("matching, claiming and starting the jobs")
        job_ids = list(map(grid.job_id, range(1, count + 1)))
        job_keys = [JobKey(job_id=job_id, batch_location_hash=SCRIPT_ID) for job_id in job_ids]
        matches = [Match(job_key=job_key, provider=self.provider.address) for job_key in job_keys]
        self.send_batches(devnet.operator, in_batches(matches))
        claim_count = math.ceil(count / JOBS_PER_TRANSACTION)
        claims = [[ClaimJobs(limit=JOBS_PER_TRANSACTION)]] * claim_count
        self.send_batches(self.provider, claims, gas=CLAIM_GAS)
        now = self.ledger.head().timestamp
        starts = [SetRunning(job_key=job_key, started_at=now) for job_key in job_keys]
        self.send_batches(self.provider, in_batches(starts))
        # The settlements bill RUN_TIME_S, so the jobs must have run for more than this time.
        self.anvil.rpc("evm_increaseTime", 2 * RUN_TIME_S)
        self.anvil.mine()
        jobs = self.ledger.jobs(job_ids, at_block=self.ledger.head())
        assert {job.state for job in jobs.values()} == {JobState.RUNNING}
        return list(map(settlement, job_keys))

    def request_jobs(self, count):
        """Request ``count`` jobs as the customer, up to REQUESTS_PER_BLOCK in one block."""
        grid, customer = self.contracts.meta_scheduler, self.devnet.customer
        job_request = JobRequest(resources=SMALL, batch_location_hash=SCRIPT_ID, escrow=ESCROW)
        payload = Payload(
            to=grid.address, data=grid.data("requestNewJob", *to_arguments(job_request)), gas=None
        )
        shared_fields = {"chain_id": self.contracts.chain_id, "gas": REQUEST_GAS, "fees": FEES}
        signed_transactions = []
        first_nonce = self.nonce(customer)
        for nonce in range(first_nonce, first_nonce + count):
            fields = to_fields(payload, nonce=nonce, **shared_fields)
            signed_transactions.append(customer.sign_transaction(fields).raw)
            is_last = nonce + 1 == first_nonce + count
            if is_last or len(signed_transactions) == REQUESTS_PER_BLOCK:
                self.send(signed_transactions)
                self.mine_until(customer, nonce + 1)
                signed_transactions.clear()

    def send_batches(self, wallet, batches, *, gas=None):
        """Send a transaction for each batch of calls. Each transaction gets its own block."""
        nonce = self.nonce(wallet)
        account = ChainAccount(self.node, self.contracts, wallet)
        for signed_transaction in self.sign_batches(account, batches, nonce, gas=gas):
            nonce += 1
            self.send([signed_transaction])
            self.mine_until(wallet, nonce)

    def sign_batches(self, account, batches, nonce, *, gas=None):
        """Return a signed transaction (bytes) for each batch; ``nonce`` is the first nonce."""
        # Without ``gas``, the account estimates the gas of each batch.
        gas_limits = [gas] * len(batches) if gas else account.gas(batches, available_gas=BLOCK_GAS)
        signed_transactions = []
        for batch, gas_limit in zip(batches, gas_limits, strict=True):
            signed_transaction = account.sign(
                batch, entry_ids=(), nonce=nonce, gas=gas_limit, fees=FEES
            )
            signed_transactions.append(signed_transaction.raw)
            nonce += 1
        return signed_transactions

    def send(self, signed_transactions):
        """Send signed transactions to the node without a pause."""
        for batch in in_batches(signed_transactions, TRANSACTIONS_PER_REQUEST):
            requests = [("eth_sendRawTransaction", [transaction]) for transaction in batch]
            for answer in self.node.batch(requests):
                assert not isinstance(answer, RpcError), answer

    def mine_until(self, wallet, nonce):
        """Mine blocks until the wallet's next nonce has this value."""
        for _ in range(20):
            if self.nonce(wallet) >= nonce:
                return
            self.anvil.mine()
        raise AssertionError(f"the chain does not mine the transactions of {wallet.address}")

    def nonce(self, wallet):
        """Return a wallet's next nonce."""
        return int(self.node.ask("eth_getTransactionCount", wallet.address, "latest"), 16)


def settlement(job_key):
    """Return the call that settles a finished job."""
    return Settle(
        job_key=job_key,
        state=JobState.FINISHED,
        seconds=RUN_TIME_S,
        exit_code=0,
        error="",
        evidence=f"0x{job_key.job_id.number:064x}",
    )


def in_batches(items, size=JOBS_PER_TRANSACTION):
    """Return the items of a list in batches of this size. The last batch can be smaller."""
    return [items[start : start + size] for start in range(0, len(items), size)]
