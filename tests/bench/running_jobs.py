# SPDX-License-Identifier: Apache-2.0
"""A separate chain with many running jobs, for benchmarks of settlements."""

from __future__ import annotations

from tests.devnet import COIN, Devnet
from tests.fakes.ledger import HARDWARE, PRICES, SMALL

from gridstead.adapters.chain.customer import JobRequest, to_arguments
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import RpcError
from gridstead.adapters.transactions.account import ChainAccount, to_fields
from gridstead.adapters.transactions.encode import Payload
from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs, Match, Register, SetRunning, Settle
from gridstead.domain.transactions.outbox import Fees

BLOCK_GAS = 30_000_000
BATCH = 50
SECONDS = 30
SCRIPT = "abcdefghijklmnopqrstuv"
ESCROW = 100 * COIN
FEES = Fees(max_fee=100 * 10**9, tip=10**9)
REQUEST_GAS, REGISTER_GAS, CLAIM_GAS = 400_000, 10**6, 9_000_000
REQUESTS_PER_BLOCK = 50
SENT_AT_ONCE = 20  # transactions in one request; anvil accepts at most 2 MB


class BusyChain:
    """A chain with the grid's contracts and blocks of 30 M gas. The benchmark mines the blocks.

    Args:
        folder: The folder for the deployment's file.
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
        self.devnet.close()

    def running_jobs(self, count):
        """Create running jobs and return the calls that settle the jobs."""
        devnet, grid = self.devnet, self.contracts
        self.act(
            self.provider,
            [[Register(hardware=HARDWARE, prices=PRICES, labels=())]],
            gas=REGISTER_GAS,
        )
        devnet.as_admin.approve_provider(self.provider.address)
        self.anvil.rpc("evm_setAutomine", False)
        self.report_progress(f"requesting {count} jobs")
        self.request(count)
        self.report_progress("matching, claiming and starting the jobs")
        ids = list(map(grid.job_id, range(1, count + 1)))
        job_keys = [JobKey(job_id=job_id, batch_location_hash=SCRIPT) for job_id in ids]
        self.act(
            devnet.operator,
            in_batches(
                [Match(job_key=job_key, provider=self.provider.address) for job_key in job_keys]
            ),
        )
        self.act(self.provider, [[ClaimJobs(limit=BATCH)]] * -(-count // BATCH), gas=CLAIM_GAS)
        now = self.ledger.head().timestamp
        self.act(
            self.provider,
            in_batches([SetRunning(job_key=job_key, started_at=now) for job_key in job_keys]),
        )
        self.anvil.rpc("evm_increaseTime", 2 * SECONDS)
        self.anvil.mine()
        jobs = self.ledger.jobs(ids, at_block=self.ledger.head())
        assert {job.state for job in jobs.values()} == {JobState.RUNNING}
        fields = {"state": JobState.FINISHED, "seconds": SECONDS, "exit_code": 0, "error": ""}
        calls = []
        for job_key in job_keys:
            evidence = f"0x{job_key.job_id.number:064x}"
            calls.append(Settle(job_key=job_key, evidence=evidence, **fields))
        return calls

    def request(self, count):
        """Request jobs as the customer."""
        grid, customer = self.contracts.meta_scheduler, self.devnet.customer
        job_request = JobRequest(resources=SMALL, batch_location_hash=SCRIPT, escrow=ESCROW)
        payload = Payload(
            to=grid.address, data=grid.data("requestNewJob", *to_arguments(job_request)), gas=None
        )
        shared = {"chain_id": self.contracts.chain_id, "gas": REQUEST_GAS, "fees": FEES}
        first = self.nonce(customer)
        for start in range(first, first + count, REQUESTS_PER_BLOCK):
            end = min(start + REQUESTS_PER_BLOCK, first + count)
            fields = [to_fields(payload, nonce=nonce, **shared) for nonce in range(start, end)]
            self.send([customer.sign_transaction(transaction).raw for transaction in fields])
            self.mine_until(customer, end)

    def act(self, wallet, batches, *, gas=None):
        """Send a transaction for each batch of calls, one in a block."""
        nonce = self.nonce(wallet)
        for raw in self.signed(
            ChainAccount(self.node, self.contracts, wallet), batches, nonce, gas=gas
        ):
            nonce += 1
            self.send([raw])
            self.mine_until(wallet, nonce)

    def signed(self, account, batches, nonce, *, gas=None):
        """Return a signed transaction (bytes) for each batch; ``nonce`` is the first nonce."""
        limits = [gas] * len(batches) if gas else account.gas(batches, available_gas=BLOCK_GAS)
        return [
            account.sign(batch, entry_ids=(), nonce=nonce + place, gas=limit, fees=FEES).raw
            for place, (batch, limit) in enumerate(zip(batches, limits, strict=True))
        ]

    def send(self, raws):
        """Send signed transactions to the node without a pause."""
        for start in range(0, len(raws), SENT_AT_ONCE):
            requests = [
                ("eth_sendRawTransaction", [raw]) for raw in raws[start : start + SENT_AT_ONCE]
            ]
            answers = self.node.batch(requests)
            refused = [answer for answer in answers if isinstance(answer, RpcError)]
            assert not refused, refused[0]

    def mine_until(self, wallet, nonce):
        """Mine blocks until the wallet's next nonce has this value."""
        for _ in range(20):
            if self.nonce(wallet) >= nonce:
                return
            self.anvil.mine()
        raise AssertionError(f"transactions of {wallet.address} are not mined")

    def nonce(self, wallet):
        """Return a wallet's next nonce."""
        return int(self.node.ask("eth_getTransactionCount", wallet.address, "latest"), 16)


def in_batches(calls, size=BATCH):
    """Return the calls in batches."""
    return [calls[start : start + size] for start in range(0, len(calls), size)]
