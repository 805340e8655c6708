# SPDX-License-Identifier: Apache-2.0
"""A chain of its own with many running jobs, for benchmarks of what comes after."""

from __future__ import annotations

from tests.devnet import COIN, Devnet
from tests.fakes.ledger import HARDWARE, PRICES, SMALL

from gridstead.adapters.chain.account import ChainAccount, to_fields
from gridstead.adapters.chain.customer import JobRequest, to_arguments
from gridstead.adapters.chain.encode import Payload
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import RpcError
from gridstead.domain.calls import ClaimJobs, Match, Register, SetRunning, Settle
from gridstead.domain.ids import JobId, JobKey
from gridstead.domain.lifecycle import JobState
from gridstead.domain.sending import Fees

BLOCK_GAS = 30_000_000
BATCH = 50
SECONDS = 30
SCRIPT = "abcdefghijklmnopqrstuv"
LOCK = 100 * COIN
FEES = Fees(max_fee=100 * 10**9, tip=10**9)
REQUEST_GAS, REGISTER_GAS, CLAIM_GAS = 400_000, 10**6, 9_000_000
REQUESTS_PER_BLOCK = 50
GIVEN_AT_ONCE = 20  # transactions in one request; anvil takes no more than two megabytes


class BusyChain:
    """A chain with the grid's contracts and blocks of 30 M gas, which mines when it is told to.

    Args:
        folder: For the deployment's file.
        tell: Called with what is going on.
    """

    def __init__(self, folder, tell):
        tell("a chain of its own, with the grid's contracts")
        self.tell = tell
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
        """Take so many jobs to where they run, and return the calls that settle them."""
        devnet, grid = self.devnet, self.contracts
        self.act(
            self.provider,
            [[Register(hardware=HARDWARE, prices=PRICES, labels=())]],
            gas=REGISTER_GAS,
        )
        devnet.as_admin.approve_provider(self.provider.address)
        self.anvil.rpc("evm_setAutomine", False)
        self.tell(f"{count} jobs are requested")
        self.request(count)
        self.tell("matched, claimed and set running")
        contract = grid.meta_scheduler.address
        ids = [
            JobId(chain_id=grid.chain_id, contract=contract, number=number)
            for number in range(1, count + 1)
        ]
        job_keys = [JobKey(job_id=one, batch_location_hash=SCRIPT) for one in ids]
        self.act(
            devnet.operator,
            in_batches([Match(job_key=one, provider=self.provider.address) for one in job_keys]),
        )
        self.act(self.provider, [[ClaimJobs(limit=BATCH)]] * -(-count // BATCH), gas=CLAIM_GAS)
        now = self.ledger.head().timestamp
        self.act(
            self.provider, in_batches([SetRunning(job_key=one, started_at=now) for one in job_keys])
        )
        self.anvil.rpc("evm_increaseTime", 2 * SECONDS)
        self.anvil.mine()
        jobs = self.ledger.jobs([one.number for one in ids], at_block=self.ledger.head())
        assert {job.state for job in jobs.values()} == {JobState.RUNNING}
        fields = {"state": JobState.FINISHED, "seconds": SECONDS, "exit_code": 0, "error": ""}
        return [
            Settle(job_key=one, evidence=f"0x{one.job_id.number:064x}", **fields)
            for one in job_keys
        ]

    def request(self, count):
        """Have the customer ask for so many jobs."""
        grid, customer = self.contracts.meta_scheduler, self.devnet.customer
        asked = JobRequest(resources=SMALL, batch_location_hash=SCRIPT, escrow=LOCK)
        payload = Payload(
            to=grid.address, data=grid.data("requestNewJob", *to_arguments(asked)), gas=None
        )
        shared = {"chain_id": self.contracts.chain_id, "gas": REQUEST_GAS, "fees": FEES}
        first = self.nonce(customer)
        for start in range(first, first + count, REQUESTS_PER_BLOCK):
            end = min(start + REQUESTS_PER_BLOCK, first + count)
            fields = [to_fields(payload, nonce=nonce, **shared) for nonce in range(start, end)]
            self.give([customer.sign_transaction(one).raw for one in fields])
            self.mine_until(customer, end)

    def act(self, wallet, batches, *, gas=None):
        """Make calls, in these batches, one in a block."""
        nonce = self.nonce(wallet)
        for raw in self.signed(
            ChainAccount(self.node, self.contracts, wallet), batches, nonce, gas=gas
        ):
            nonce += 1
            self.give([raw])
            self.mine_until(wallet, nonce)

    def signed(self, account, batches, nonce, *, gas=None):
        """Return the bytes of a transaction for each batch, from that nonce on."""
        limits = [gas] * len(batches) if gas else account.gas(batches, room=BLOCK_GAS)
        return [
            account.sign(batch, entry_ids=(), nonce=nonce + place, gas=limit, fees=FEES).raw
            for place, (batch, limit) in enumerate(zip(batches, limits, strict=True))
        ]

    def give(self, raws):
        """Give signed bytes to the node, as fast as it takes them."""
        for start in range(0, len(raws), GIVEN_AT_ONCE):
            requests = [
                ("eth_sendRawTransaction", [raw]) for raw in raws[start : start + GIVEN_AT_ONCE]
            ]
            refused = [one for one in self.node.batch(requests) if isinstance(one, RpcError)]
            assert not refused, refused[0]

    def mine_until(self, wallet, nonce):
        """Mine until the wallet's next nonce is that one."""
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
