# SPDX-License-Identifier: Apache-2.0
"""Measures the gas of the contracts' calls on a real chain, as in the receipts.

The gas must depend only on the contracts, so the arguments of calls are fixed: addresses of anvil's
accounts, a script id of 22 characters, no labels, and an evidence hash without zero bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from eth_utils import keccak

ESCROW = 1000 * 10**18
BATCH_SIZE = 50
UNLIMITED = 2**256 - 1
CANCELLED, FINISHED, RUNNING = 4, 5, 3
DEFINITION = (1, 100, 2, 3, "abcdefghijklmnopqrstuv", 4, [], [])
NAME = b"job".ljust(32, b"\0")
PRICES = (85 * 10**17, 95 * 10**16, 8 * 10**13)
HARDWARE = (1, [1], [64], [10**6])
LABELS = [("os", "linux")]
EVIDENCE = keccak(text="accounting record")
STEPS = ("request", "match", "claim", "start", "end")
# A storage slot of a queue holds four job ids, so each fourth entry pays for a new slot. The gas of
# a later call is the mean of this many calls.
LATER_CALLS = 4

GasByCall = dict[str, int]


class GasGrid:
    """A set of contracts on a new chain, with an admin, a matcher, customers and providers."""

    def __init__(self, chain, create) -> None:
        self.chain = chain
        accounts = chain.eth.accounts
        self.admin, self.matcher, self.customer = accounts[:3]
        self.provider, self.newcomer, self.candidate = accounts[3:6]
        self.credit = create("Credit", 10**6 * 10**18)
        self.providers = create("ProviderManager")
        self.jobs = create("JobRepository")
        self.queues = create("ProviderJobQueues", self.jobs.address)
        self.constants = create("Constants")
        self.contract = create(
            "MetaScheduler",
            self.credit.address,
            self.constants.address,
            self.providers.address,
            self.queues.address,
            self.jobs.address,
        )
        self.meta = self.contract.functions
        self._connect()

    def _connect(self) -> None:
        role = self.jobs.functions.METASCHEDULER_ROLE().call()
        own_role = self.providers.functions.METASCHEDULER_CONTRACT_ROLE().call()
        self.spend(self.admin, self.jobs.functions.grantRole(role, self.contract.address))
        self.spend(self.admin, self.providers.functions.grantRole(own_role, self.contract.address))
        self.spend(self.admin, self.queues.functions.transferOwnership(self.contract.address))
        self.spend(self.admin, self.meta.grantRole(role, self.matcher))
        for customer in (self.customer, self.newcomer):
            self.spend(self.admin, self.credit.functions.transfer(customer, 10**5 * 10**18))
        self.spend(self.customer, self.credit.functions.approve(self.contract.address, UNLIMITED))
        self.spend(self.provider, self.providers.functions.register(HARDWARE, PRICES, LABELS))
        self.spend(self.admin, self.providers.functions.approve(self.provider))

    def spend(self, sender: str, call) -> int:
        """Mine a call in a separate block, and return the gas used."""
        receipt = self.chain.eth.wait_for_transaction_receipt(
            call.transact({"from": sender, "gas": 20_000_000})
        )
        assert receipt.status == 1
        return receipt.gasUsed

    def newest(self, count: int = 1) -> list[bytes]:
        """Return the ids of the last jobs requested, oldest first."""
        last = self.jobs.functions.jobIdCounter().call()
        return [number.to_bytes(32, "big") for number in range(last - count + 1, last + 1)]

    def now(self) -> int:
        """Return the time of the last block, in seconds since 1970."""
        return self.chain.eth.get_block("latest").timestamp

    def pass_time(self, seconds: int) -> None:
        """Set the next block's time to this many seconds later."""
        self.chain.provider.make_request("evm_increaseTime", [seconds])

    def mine(self, blocks: int) -> None:
        """Mine empty blocks."""
        self.chain.provider.make_request("anvil_mine", [hex(blocks)])

    # One job, with the calls of the published ABI.

    def request(self) -> int:
        """Return the gas of a request by the customer."""
        return self.spend(self.customer, self.meta.requestNewJob(DEFINITION, ESCROW, NAME, True))

    def match(self) -> int:
        """Return the gas of matching the last job to the provider."""
        return self.spend(self.matcher, self.meta.metaSchedule(self.newest()[0], self.provider))

    def claim(self) -> int:
        """Return the gas of claiming the job."""
        return self.spend(self.provider, self.meta.claimNextJob())

    def start(self) -> int:
        """Return the gas of starting the job."""
        return self.spend(
            self.provider, self.meta.providerSetJobStatus(self.newest()[0], RUNNING, 0, "", 0)
        )

    def end(self) -> int:
        """Return the gas of settling the job after a minute."""
        self.pass_time(60)
        return self.spend(
            self.provider, self.meta.providerSetJobStatus(self.newest()[0], FINISHED, 1, "", 0)
        )

    def create_job_at(self, step: str) -> bytes:
        """Create a job, make the steps up to this one, and return its id."""
        for name in STEPS[: STEPS.index(step) + 1]:
            getattr(self, name)()
        return self.newest()[0]

    def sign_permit(self, owner: str, deadline: int) -> tuple[int, bytes, bytes]:
        """Return the owner's signature of a permit for the escrow, as v, r and s."""
        nonce = self.credit.functions.nonces(owner).call()
        document = {
            "types": {
                "EIP712Domain": [
                    {"name": "name", "type": "string"},
                    {"name": "version", "type": "string"},
                    {"name": "chainId", "type": "uint256"},
                    {"name": "verifyingContract", "type": "address"},
                ],
                "Permit": [
                    {"name": "owner", "type": "address"},
                    {"name": "spender", "type": "address"},
                    {"name": "value", "type": "uint256"},
                    {"name": "nonce", "type": "uint256"},
                    {"name": "deadline", "type": "uint256"},
                ],
            },
            "primaryType": "Permit",
            "domain": {
                "name": "Credit",
                "version": "1",
                "chainId": self.chain.eth.chain_id,
                "verifyingContract": self.credit.address,
            },
            "message": {
                "owner": owner,
                "spender": self.contract.address,
                "value": str(ESCROW),
                "nonce": str(nonce),
                "deadline": str(deadline),
            },
        }
        answer = self.chain.provider.make_request("eth_signTypedData_v4", [owner, document])
        signature = bytes.fromhex(answer["result"].removeprefix("0x"))
        return signature[64], signature[:32], signature[32:64]


def measure_job(grid: GasGrid) -> tuple[GasByCall, GasByCall]:
    """Return the gas of each step, for the first job of a customer and provider and a later job."""
    first = _measure_steps(grid)
    totals = dict.fromkeys(STEPS, 0)
    for _ in range(LATER_CALLS):
        for step, gas in _measure_steps(grid).items():
            totals[step] += gas
    return first, {step: total // LATER_CALLS for step, total in totals.items()}


def _measure_steps(grid: GasGrid) -> GasByCall:
    return {step: getattr(grid, step)() for step in STEPS}


def measure_batches(grid: GasGrid) -> GasByCall:
    """Return the gas of each step per job; all steps except the requests in batches of 50."""
    requests = sum(grid.request() for _ in range(BATCH_SIZE))
    ids = grid.newest(BATCH_SIZE)
    meta, provider = grid.meta, grid.provider
    gas = {"request": requests}
    gas["match"] = grid.spend(
        grid.matcher, meta.metaScheduleMany([(job, provider, UNLIMITED) for job in ids])
    )
    gas["claim"] = grid.spend(provider, meta.claimJobs(BATCH_SIZE))
    now = grid.now()
    gas["start"] = grid.spend(provider, meta.setRunningMany([(job, now) for job in ids]))
    grid.pass_time(60)
    ends = [(job, FINISHED, 60, 0, "", keccak(job)) for job in ids]
    gas["end"] = grid.spend(provider, meta.settleMany(ends))
    assert {grid.jobs.functions.get(job).call()[1] for job in ids} == {FINISHED}
    return {step: used // BATCH_SIZE for step, used in gas.items()}


def measure_others(grid: GasGrid) -> GasByCall:
    """Return the gas of the other calls: the mean of four later calls, or of a single call."""
    figures = {name: _measure_later(grid, measure) for name, measure in OTHERS.items()}
    for name, measure in ONCE.items():
        figures[name] = measure(grid)
    return figures


def _measure_later(grid: GasGrid, measure: Callable[[GasGrid], int]) -> int:
    """Return the mean gas of the calls after the first one."""
    measure(grid)
    return sum(measure(grid) for _ in range(LATER_CALLS)) // LATER_CALLS


def _permit(grid: GasGrid) -> int:
    deadline = grid.now() + 3600
    signed = grid.sign_permit(grid.newcomer, deadline)
    return grid.spend(
        grid.newcomer,
        grid.meta.requestNewJobWithPermit(DEFINITION, ESCROW, NAME, True, deadline, *signed),
    )


def _on_job(step: str, sender: str, call: str, *arguments: object) -> Callable[[GasGrid], int]:
    """Return a function that measures one call on a job that has reached a step."""

    def measure(grid: GasGrid) -> int:
        job = grid.create_job_at(step)
        return grid.spend(getattr(grid, sender), getattr(grid.meta, call)(job, *arguments))

    return measure


def _expire(step: str, seconds: int, blocks: int) -> Callable[[GasGrid], int]:
    def measure(grid: GasGrid) -> int:
        job = grid.create_job_at(step)
        grid.pass_time(seconds)
        grid.mine(blocks)
        return grid.spend(grid.newcomer, grid.meta.expireJob(job))

    return measure


def _our_start(grid: GasGrid) -> int:
    job = grid.create_job_at("claim")
    return grid.spend(grid.provider, grid.meta.setJobRunning(job, grid.now()))


def _our_settlement(grid: GasGrid) -> int:
    job = grid.create_job_at("start")
    grid.pass_time(90)
    return grid.spend(grid.provider, grid.meta.settleJob(job, FINISHED, 90, 0, "", EVIDENCE))


def _delegated_top_up(grid: GasGrid) -> int:
    job = grid.create_job_at("start")
    # The escrow pays for 70 minutes. A slice can be added if at most 30 remain.
    grid.pass_time(45 * 60)
    return grid.spend(grid.provider, grid.meta.topUpJobDelegate(job))


def _claim_of(call: str) -> Callable[[GasGrid], int]:
    return lambda grid: grid.spend(grid.provider, getattr(grid.meta, call)())


def _register(grid: GasGrid) -> int:
    return grid.spend(grid.candidate, grid.providers.functions.register(HARDWARE, PRICES, LABELS))


def _approve(grid: GasGrid) -> int:
    return grid.spend(grid.admin, grid.providers.functions.approve(grid.candidate))


def _set_prices(grid: GasGrid) -> int:
    return grid.spend(grid.provider, grid.providers.functions.setPrices((1, 2, 3)))


def _withdraw(grid: GasGrid) -> int:
    return grid.spend(grid.admin, grid.meta.withdrawAdmin(grid.meta.accruedFees().call()))


DAY = 86_400
# The order matters: a call that claims from a queue follows the one that fills the queue.
OTHERS: dict[str, Callable[[GasGrid], int]] = {
    "requestNewJobWithPermit": _permit,
    "cancelJob, pending": _on_job("request", "customer", "cancelJob"),
    "cancelJob, matched": _on_job("match", "customer", "cancelJob"),
    "cancelJob, claimed": _on_job("claim", "customer", "cancelJob"),
    "cancelJob, running": _on_job("start", "customer", "cancelJob"),
    "claimNextCancellingJob": _claim_of("claimNextCancellingJob"),
    "topUpJob": _on_job("start", "customer", "topUpJob", ESCROW),
    "claimNextTopUpJob": _claim_of("claimNextTopUpJob"),
    "topUpJobDelegate": _delegated_top_up,
    "setDelegateSpendingAuthority": _on_job(
        "request", "customer", "setDelegateSpendingAuthority", False
    ),
    "refuseJob, claimed": _on_job("claim", "provider", "refuseJob"),
    "timeoutJob, claimed": _on_job("claim", "matcher", "timeoutJob"),
    "panicJob, running": _on_job("start", "matcher", "panicJob", "node lost"),
    "setJobRunning": _our_start,
    "settleJob": _our_settlement,
    "expireJob, matched": _expire("match", 0, 11),
    "expireJob, claimed": _expire("claim", 8 * DAY, 1),
    "expireJob, running": _expire("start", 9 * DAY, 1),
}
ONCE: dict[str, Callable[[GasGrid], int]] = {
    "register": _register,
    "approve": _approve,
    "setPrices": _set_prices,
    "withdrawAdmin": _withdraw,
}
