# SPDX-License-Identifier: Apache-2.0
"""Functions that measure the gas of contract calls on anvil, from the receipts of transactions.

The figures must depend only on the contracts. The arguments of the calls are therefore fixed: the
addresses of anvil's accounts, a script id of 22 characters, no labels, and an evidence hash without
zero bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from eth_utils import keccak

from gridstead.domain.labels.keys import STANDARD_KEYS, Form
from gridstead.domain.transactions.calls import MAX_ERROR_BYTES

ESCROW = 1000 * 10**18
BATCH_SIZE = 50
UNLIMITED = 2**256 - 1
CANCELLED, FINISHED, FAILED, RUNNING = 4, 5, 6, 3
# The exit code 2, and the longest error text that a supervisor sends.
EXIT_STATUS = 2 << 8
ERROR = "e" * MAX_ERROR_BYTES
# GPUs, MB per CPU, CPUs per task, tasks, script id, storage type, labels and conditions.
DEFINITION = (1, 100, 2, 3, "abcdefghijklmnopqrstuv", 4, [], [])
NAME = b"job".ljust(32, b"\0")
# The prices of a GPU, a CPU and a MB of memory per minute, in wei.
PRICES = (85 * 10**17, 95 * 10**16, 8 * 10**13)
# The number of nodes, and the GPUs, CPUs and MB of memory of each node.
HARDWARE = (1, [1], [64], [10**6])
LABELS = [("os", "linux")]
MANY_LABELS = 50
# The values of labels from benchmarks.
VALUES = {
    Form.TEXT: "amd-epyc-7763-64-core-processor",
    Form.NUMBER: "12345.67",
    Form.UNIX_SECONDS: "1800000000",
    Form.DIGEST: "0f" * 32,
    Form.URL: "https://provider.example.org/benchmark-report.json",
}
EVIDENCE = keccak(text="accounting record")
STEPS = ("request", "match", "claim", "start", "end")
# A storage slot of a queue holds four ids, so every fourth entry needs gas for a new slot. The
# figure of a later call is therefore the mean of four calls.
LATER_JOBS = 4

Figures = dict[str, int]


class GasGrid:
    """The contracts of a grid on a new chain, with an admin, a matcher, customers and providers."""

    def __init__(self, chain, create) -> None:
        self.chain = chain
        self.admin, self.matcher, self.customer, self.provider, self.newcomer, self.candidate = (
            chain.eth.accounts[:6]
        )
        self._unused_accounts = iter(chain.eth.accounts[6:])
        self.labelled_candidate = next(self._unused_accounts)
        admin = self.admin
        self.credit = create("Credit", admin, admin, 10**6 * 10**18)
        self.providers = create("ProviderManager", admin)
        self.jobs = create("JobRepository", admin)
        self.queues = create("ProviderJobQueues", admin, self.jobs.address)
        constants = create("Constants", admin)
        others = (self.credit, constants, self.providers, self.queues, self.jobs)
        addresses = [other.address for other in others]
        self.contract = create("MetaScheduler", admin, *addresses)
        self.meta = self.contract.functions
        self._connect()

    def _connect(self) -> None:
        role = self.jobs.functions.METASCHEDULER_ROLE().call()
        contract_role = self.providers.functions.METASCHEDULER_CONTRACT_ROLE().call()
        self.send(self.admin, self.jobs.functions.grantRole(role, self.contract.address))
        self.send(
            self.admin, self.providers.functions.grantRole(contract_role, self.contract.address)
        )
        self.send(self.admin, self.queues.functions.transferOwnership(self.contract.address))
        self.send(self.admin, self.meta.grantRole(role, self.matcher))
        for customer in (self.customer, self.newcomer):
            self.send(self.admin, self.credit.functions.transfer(customer, 2 * 10**5 * 10**18))
        self.send(self.customer, self.credit.functions.approve(self.contract.address, UNLIMITED))
        self.send(self.provider, self.providers.functions.register(HARDWARE, PRICES, LABELS))
        self.send(self.admin, self.providers.functions.approve(self.provider))

    def send(self, sender: str, call) -> int:
        """Mine a call in a separate block, and return the gas used."""
        receipt = self.chain.eth.wait_for_transaction_receipt(
            call.transact({"from": sender, "gas": 20_000_000})
        )
        assert receipt.status == 1
        return receipt.gasUsed

    def new_customer(self) -> str:
        """Return an account whose credits and allowance pay for a job and a top-up."""
        account = next(self._unused_accounts)
        self.send(self.admin, self.credit.functions.transfer(account, 2 * ESCROW))
        self.send(account, self.credit.functions.approve(self.contract.address, 2 * ESCROW + 1))
        return account

    def new_provider(self) -> str:
        """Return an approved provider whose queues have never had an entry."""
        account = next(self._unused_accounts)
        self.send(account, self.providers.functions.register(HARDWARE, PRICES, LABELS))
        self.send(self.admin, self.providers.functions.approve(account))
        return account

    def newest_job_ids(self, count: int = 1) -> list[bytes]:
        """Return the ids of the jobs that were requested last, oldest first."""
        last = self.jobs.functions.jobIdCounter().call()
        return [number.to_bytes(32, "big") for number in range(last - count + 1, last + 1)]

    def now(self) -> int:
        """Return the Unix time of the last block."""
        return self.chain.eth.get_block("latest").timestamp

    def pass_time(self, seconds: int) -> None:
        """Advance the time of the next block by a number of seconds."""
        self.chain.provider.make_request("evm_increaseTime", [seconds])

    def mine(self, blocks: int) -> None:
        """Mine empty blocks."""
        self.chain.provider.make_request("anvil_mine", [hex(blocks)])

    # The steps of one job. They use only functions that DeepSquare 1.2 also has. contracts/gas.md
    # compares the gas of both.

    def request(self) -> int:
        """Return the gas of a request by the customer."""
        return self.send(self.customer, self.meta.requestNewJob(DEFINITION, ESCROW, NAME, True))

    def match(self) -> int:
        """Return the gas of matching the last job to the provider."""
        return self.send(
            self.matcher, self.meta.metaSchedule(self.newest_job_ids()[0], self.provider)
        )

    def claim(self) -> int:
        """Return the gas of claiming the job."""
        return self.send(self.provider, self.meta.claimNextJob())

    def start(self) -> int:
        """Return the gas of starting the job."""
        return self.send(
            self.provider,
            self.meta.providerSetJobStatus(self.newest_job_ids()[0], RUNNING, 0, "", 0),
        )

    def end(self) -> int:
        """Return the gas of settling the job after a minute."""
        self.pass_time(60)
        return self.send(
            self.provider,
            self.meta.providerSetJobStatus(self.newest_job_ids()[0], FINISHED, 1, "", 0),
        )

    def create_job_in_step(self, step: str) -> bytes:
        """Create a job, make the steps up to this step, and return the id of the job."""
        for name in STEPS[: STEPS.index(step) + 1]:
            getattr(self, name)()
        return self.newest_job_ids()[0]

    def sign_permit(self, owner: str, deadline: int) -> tuple[int, bytes, bytes]:
        """Return the owner's signature of a permit for the escrow, as v, r and s."""
        nonce = self.credit.functions.nonces(owner).call()
        message = {
            "owner": owner,
            "spender": self.contract.address,
            "value": str(ESCROW),
            "nonce": str(nonce),
            "deadline": str(deadline),
        }
        domain = {
            "name": "Credit",
            "version": "1",
            "chainId": self.chain.eth.chain_id,
            "verifyingContract": self.credit.address,
        }
        document = {
            "types": {
                "EIP712Domain": _members(domain, "string", "string", "uint256", "address"),
                "Permit": _members(message, "address", "address", "uint256", "uint256", "uint256"),
            },
            "primaryType": "Permit",
            "domain": domain,
            "message": message,
        }
        answer = self.chain.provider.make_request("eth_signTypedData_v4", [owner, document])
        signature = bytes.fromhex(answer["result"].removeprefix("0x"))
        return signature[64], signature[:32], signature[32:64]


def _members(names: Iterable[str], *types: str) -> list[dict[str, str]]:
    """Return the members of an EIP-712 type."""
    return [{"name": name, "type": type_} for name, type_ in zip(names, types, strict=True)]


def measure_job(grid: GasGrid) -> tuple[Figures, Figures]:
    """Return the gas of each step for the first job, and its mean for the later jobs.

    The first job is the first one of its customer and of its provider.
    """
    first = _measure_steps(grid)
    totals = dict.fromkeys(STEPS, 0)
    for _ in range(LATER_JOBS):
        for step, gas in _measure_steps(grid).items():
            totals[step] += gas
    return first, {step: total // LATER_JOBS for step, total in totals.items()}


def _measure_steps(grid: GasGrid) -> Figures:
    return {step: getattr(grid, step)() for step in STEPS}


def measure_batches(grid: GasGrid) -> Figures:
    """Return the gas of each step per job. All steps except the requests are in batches."""
    requests = sum(grid.request() for _ in range(BATCH_SIZE))
    ids = grid.newest_job_ids(BATCH_SIZE)
    meta, provider = grid.meta, grid.provider
    gas = {"request": requests}
    gas["match"] = grid.send(
        grid.matcher, meta.metaScheduleMany([(job, provider, UNLIMITED) for job in ids])
    )
    gas["claim"] = grid.send(provider, meta.claimJobs(BATCH_SIZE))
    now = grid.now()
    gas["start"] = grid.send(provider, meta.setRunningMany([(job, now) for job in ids]))
    grid.pass_time(60)
    settlements = [(job, FINISHED, 60, 0, "", keccak(job)) for job in ids]
    gas["end"] = grid.send(provider, meta.settleMany(settlements))
    for job in ids:
        _, state, *_ = grid.jobs.functions.get(job).call()
        assert state == FINISHED
    return {step: used // BATCH_SIZE for step, used in gas.items()}


def measure_other_calls(grid: GasGrid) -> Figures:
    """Return the gas of the calls that are not steps of a job.

    For repeated calls, the figure is the mean of the calls after the first.
    """
    figures = {name: _mean_gas(grid, measure) for name, measure in REPEATED_CALLS.items()}
    for name, measure in SINGLE_CALLS.items():
        figures[name] = measure(grid)
    return figures


def _mean_gas(grid: GasGrid, measure: Callable[[GasGrid], int]) -> int:
    measure(grid)  # the first call, which is not a part of the mean
    total = sum(measure(grid) for _ in range(LATER_JOBS))
    return total // LATER_JOBS


def _request_with_permit(grid: GasGrid) -> int:
    deadline = grid.now() + 3600
    signature = grid.sign_permit(grid.newcomer, deadline)
    return grid.send(
        grid.newcomer,
        grid.meta.requestNewJobWithPermit(DEFINITION, ESCROW, NAME, True, deadline, *signature),
    )


def _call_on_job(step: str, sender: str, call: str, *arguments: object) -> Callable[[GasGrid], int]:
    """Return a function that measures one call on a job that has reached a step."""

    def measure(grid: GasGrid) -> int:
        job = grid.create_job_in_step(step)
        return grid.send(getattr(grid, sender), getattr(grid.meta, call)(job, *arguments))

    return measure


def _expire_in_step(step: str, seconds: int, blocks: int) -> Callable[[GasGrid], int]:
    def measure(grid: GasGrid) -> int:
        job = grid.create_job_in_step(step)
        grid.pass_time(seconds)
        grid.mine(blocks)
        return grid.send(grid.newcomer, grid.meta.expireJob(job))

    return measure


def _set_running(grid: GasGrid) -> int:
    job = grid.create_job_in_step("claim")
    return grid.send(grid.provider, grid.meta.setJobRunning(job, grid.now()))


def _settle(grid: GasGrid) -> int:
    job = grid.create_job_in_step("start")
    grid.pass_time(90)
    return grid.send(grid.provider, grid.meta.settleJob(job, FINISHED, 90, 0, "", EVIDENCE))


def _refuse_requested(grid: GasGrid) -> int:
    job = grid.create_job_in_step("claim")
    grid.send(grid.customer, grid.meta.cancelJob(job))
    return grid.send(grid.provider, grid.meta.refuseJob(job))


def _settle_failed(grid: GasGrid) -> int:
    job = grid.create_job_in_step("start")
    grid.pass_time(90)
    return grid.send(
        grid.provider, grid.meta.settleJob(job, FAILED, 90, EXIT_STATUS, ERROR, EVIDENCE)
    )


def _settle_many_failed(grid: GasGrid) -> int:
    """Return the gas per job of settling a batch of failed jobs."""
    jobs = [grid.create_job_in_step("start") for _ in range(BATCH_SIZE)]
    grid.pass_time(90)
    settlements = [(job, FAILED, 90, EXIT_STATUS, ERROR, keccak(job)) for job in jobs]
    return grid.send(grid.provider, grid.meta.settleMany(settlements)) // BATCH_SIZE


def _delegated_top_up(grid: GasGrid) -> int:
    job = grid.create_job_in_step("start")
    # The escrow pays for 70 minutes. A delegated top-up is allowed if at most 30 minutes remain.
    grid.pass_time(45 * 60)
    return grid.send(grid.provider, grid.meta.topUpJobDelegate(job))


def _claim_with(call: str) -> Callable[[GasGrid], int]:
    return lambda grid: grid.send(grid.provider, getattr(grid.meta, call)())


def _register(grid: GasGrid) -> int:
    return grid.send(grid.candidate, grid.providers.functions.register(HARDWARE, PRICES, LABELS))


def _approve(grid: GasGrid) -> int:
    return grid.send(grid.admin, grid.providers.functions.approve(grid.candidate))


def _labels(count: int) -> list[tuple[str, str]]:
    """Return the labels with standard keys, and further labels up to a number, sorted by key."""
    labels = [(standard.key, VALUES[standard.form]) for standard in STANDARD_KEYS.values()]
    labels += [(f"software.{number}", "installed") for number in range(count - len(labels))]
    return sorted(labels)


def _register_with_labels(grid: GasGrid) -> int:
    labels = _labels(MANY_LABELS)
    call = grid.providers.functions.register(HARDWARE, PRICES, labels)
    return grid.send(grid.labelled_candidate, call)


def _approve_with_labels(grid: GasGrid) -> int:
    return grid.send(grid.admin, grid.providers.functions.approve(grid.labelled_candidate))


def _set_prices(grid: GasGrid) -> int:
    return grid.send(grid.provider, grid.providers.functions.setPrices((1, 2, 3)))


def _withdraw(grid: GasGrid) -> int:
    return grid.send(grid.admin, grid.meta.withdrawAdmin(grid.meta.accruedFees().call()))


DAY = 86_400
# The order matters: a call that claims from a queue is after the call that fills the queue.
REPEATED_CALLS: dict[str, Callable[[GasGrid], int]] = {
    "requestNewJobWithPermit": _request_with_permit,
    "cancelJob, pending": _call_on_job("request", "customer", "cancelJob"),
    "cancelJob, matched": _call_on_job("match", "customer", "cancelJob"),
    "cancelJob, claimed": _call_on_job("claim", "customer", "cancelJob"),
    "cancelJob, running": _call_on_job("start", "customer", "cancelJob"),
    "claimNextCancellingJob": _claim_with("claimNextCancellingJob"),
    "topUpJob": _call_on_job("start", "customer", "topUpJob", ESCROW),
    "claimNextTopUpJob": _claim_with("claimNextTopUpJob"),
    "topUpJobDelegate": _delegated_top_up,
    "setDelegateSpendingAuthority": _call_on_job(
        "request", "customer", "setDelegateSpendingAuthority", False
    ),
    "refuseJob, claimed": _call_on_job("claim", "provider", "refuseJob"),
    "refuseJob, cancelled": _refuse_requested,
    "timeoutJob, claimed": _call_on_job("claim", "matcher", "timeoutJob"),
    "panicJob, running": _call_on_job("start", "matcher", "panicJob", "node lost"),
    "setJobRunning": _set_running,
    "settleJob": _settle,
    "settleJob, failed": _settle_failed,
    "expireJob, matched": _expire_in_step("match", 0, 11),
    "expireJob, claimed": _expire_in_step("claim", 8 * DAY, 1),
    "expireJob, running": _expire_in_step("start", 9 * DAY, 1),
}
SINGLE_CALLS: dict[str, Callable[[GasGrid], int]] = {
    "register": _register,
    "approve": _approve,
    "register, 50 labels": _register_with_labels,
    "approve, 50 labels": _approve_with_labels,
    "setPrices": _set_prices,
    "settleMany, failed": _settle_many_failed,
    "withdrawAdmin": _withdraw,
}
