# SPDX-License-Identifier: Apache-2.0
"""The contracts' functions for customers and for administrators of a grid.

A function that changes something sends one or more transactions, and returns when they are mined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from gridstead.adapters.chain.abi import artifact, reverted
from gridstead.adapters.chain.contract import Payload, ViewCall
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.job_history import HistoryEvent, read_job_history
from gridstead.adapters.chain.logs import read_logs
from gridstead.adapters.chain.money import CreditPermit
from gridstead.adapters.chain.node import Node, RpcError, to_block, to_bytes, unavailable
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.jobs.billing import MAX_CPUS, MAX_GPUS, MAX_MEMORY_MB, Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Affinity, Label
from gridstead.errors import InvalidInput, UnexpectedOutput

T = TypeVar("T")

STORED_BY_GRID = 0
NAME_BYTES = 32
PERMIT_S = 3600  # how long an unused permit is valid
# Source of these three limits: contracts/src/libraries/Definitions.sol.
MAX_HASH_BYTES = 128
MAX_LABELS = 16
MAX_LABEL_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A customer's request for a job.

    Attributes:
        resources: The resources of the whole job.
        batch_location_hash: The id of the job's script in the Job Definition service.
        escrow: Credits to hold in escrow, wei.
        name: The customer's name for the job, at most 32 bytes.
        uses: Labels that a provider must have.
        affinity: Conditions on a provider's labels.
        delegate: Whether other accounts may top the job up from the customer's allowance.

    Raises:
        InvalidInput: If a text is not UTF-8, or if a text, the number of labels or the resources
            exceed a limit of the contracts.
    """

    resources: Resources
    batch_location_hash: str
    escrow: int
    name: str = ""
    uses: tuple[Label, ...] = ()
    affinity: tuple[Affinity, ...] = ()
    delegate: bool = False

    def __post_init__(self) -> None:
        self._check_texts()
        resources = self.resources
        if (
            resources.cpus > MAX_CPUS
            or resources.memory_mb > MAX_MEMORY_MB
            or resources.gpus > MAX_GPUS
        ):
            detail = (
                f"{resources.cpus} CPU threads, {resources.memory_mb} MB, {resources.gpus} GPUs"
            )
            hint = (
                f"A job can have at most {MAX_CPUS} CPU threads, {MAX_MEMORY_MB} MB"
                f" and {MAX_GPUS} GPUs."
            )
            raise InvalidInput(
                "job requests more resources than the grid allows", detail=detail, hint=hint
            )

    def _check_texts(self) -> None:
        labels: list[Label | Affinity] = [*self.uses, *self.affinity]
        if len(labels) > MAX_LABELS:
            detail = f"{len(labels)} labels, at most {MAX_LABELS} are allowed"
            raise InvalidInput("job has too many labels", detail=detail)
        _check_text("job name", self.name, NAME_BYTES)
        _check_text("id of a script", self.batch_location_hash, MAX_HASH_BYTES)
        for label in labels:
            _check_text("label", label.key, MAX_LABEL_BYTES)
            _check_text("label", label.value, MAX_LABEL_BYTES)


def _check_text(what: str, text: str, limit_bytes: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as err:
        raise InvalidInput(f"invalid {what} {text[:80]!r}", detail="it is not UTF-8") from err
    if size > limit_bytes:
        detail = f"{size} bytes, at most {limit_bytes} are allowed"
        raise InvalidInput(f"invalid {what} {text[:80]!r}", detail=detail)


class Customer:
    """Calls the contracts' functions with one wallet. Amounts of credits are in wei.

    Args:
        node: A node of the chain.
        contracts: The contracts of the grid.
        wallet: The wallet of the caller.
        first_block: The first block that is searched for events.
    """

    def __init__(
        self, node: Node, contracts: Contracts, wallet: Wallet, *, first_block: int = 0
    ) -> None:
        self._node = node
        self._contracts = contracts
        self._first_block = first_block
        self._wallet = wallet
        self._direct = DirectSender(node, wallet)

    @property
    def address(self) -> str:
        """The wallet's address, lower case."""
        return self._direct.address

    def balance(self, address: str | None = None) -> int:
        """Return the credits of an address. The default is the caller's address."""
        return self._value(self._contracts.credit.balance_of(address or self.address))

    def coins(self, address: str | None = None) -> int:
        """Return how many coins of the chain an address has, in wei. Coins pay for gas."""
        return int(self._node.ask("eth_getBalance", address or self.address, "latest"), 16)

    def allowance(self) -> int:
        """Return how many of the caller's credits the grid may hold in escrow."""
        spender = self._contracts.meta_scheduler.address
        return self._value(self._contracts.credit.allowance(self.address, spender))

    def minimum_escrow(self) -> int:
        """Return the minimum escrow of a job."""
        return self._value(self._contracts.constants.minimum_amount())

    def fee_percent(self) -> int:
        """Return the grid's share of a bill, percent."""
        return self._value(self._contracts.constants.fee_percent())

    def allow(self, amount: int) -> None:
        """Set the caller's allowance: how many of its credits the grid may hold in escrow."""
        self._transact(
            "approve",
            self._contracts.credit.approve(self._contracts.meta_scheduler.address, amount),
        )

    def mint(self, address: str, amount: int) -> None:
        """Mint credits for an address. Only the owner of Credit may call this."""
        self._transact("mint", self._contracts.credit.mint(address, amount))

    def transfer(self, address: str, amount: int) -> None:
        """Transfer credits of the caller to an address."""
        self._transact("transfer", self._contracts.credit.transfer(address, amount))

    def request_job(self, request: JobRequest) -> int:
        """Request a job and pay its escrow. Return the job's number.

        Raises:
            TransactionReverted: If the grid refuses the job, for example if the credits or the
                allowance are not sufficient.
        """
        (number,) = self.request_jobs([request])
        return number

    def request_jobs(self, requests: Iterable[JobRequest]) -> tuple[int, ...]:
        """Request jobs at the same time. Return the job numbers in the order of the requests.

        Raises:
            TransactionReverted: If the grid refuses a job. The other jobs may exist.
        """
        grid = self._contracts.meta_scheduler
        payloads = []
        for request in requests:
            definition, escrow, name, delegate = to_arguments(request)
            payloads.append(
                grid.request_new_job(definition, escrow, name, delegate_spending=delegate)
            )
        receipts = self._direct.transact_all(payloads, name="requestNewJob")
        return tuple(map(_job_number, receipts))

    def submit_job(self, request: JobRequest) -> int:
        """Request a job, and raise the allowance for its escrow if needed. Return the job's number.

        With Gridstead's contracts this is one transaction: the request contains a signed permit for
        the allowance. So request and allowance take effect together, or not at all.

        Raises:
            TransactionReverted: If the grid refuses the job, for example if the credits are not
                sufficient.
        """
        if self.allowance() >= request.escrow:
            return self.request_job(request)
        if not self._contracts.has_batches:
            self.allow(request.escrow)
            return self.request_job(request)
        definition, escrow, name, delegate = to_arguments(request)
        grid = self._contracts.meta_scheduler
        payload = grid.request_new_job_with_permit(
            definition, escrow, name, self._permit(escrow), delegate_spending=delegate
        )
        return _job_number(self._transact("requestNewJobWithPermit", payload))

    def cancel_job(self, number: int) -> None:
        """Cancel a job of the caller, or request its provider to end it if it is running.

        On contracts of version 3, this is also a request if the job is claimed.
        """
        self._transact("cancelJob", self._contracts.meta_scheduler.cancel_job(number))

    def top_up(self, number: int, amount: int) -> None:
        """Add credits of the caller to the escrow of a job that is claimed or running."""
        self._transact("topUpJob", self._contracts.meta_scheduler.top_up_job(number, amount))

    def job_id(self, number: int) -> JobId:
        """Return the id of the job that has this number on the grid."""
        return self._contracts.job_id(number)

    def job_numbers(self, customer: str | None = None) -> tuple[int, ...]:
        """Return the numbers of a customer's jobs, oldest first. The default is the caller."""
        return self._value(self._contracts.jobs.by_customer(customer or self.address))

    def job_history(self, number: int) -> tuple[HistoryEvent, ...]:
        """Return the history events of a job, oldest first."""
        return read_job_history(self._node, self._contracts, number, first_block=self._first_block)

    def provider_addresses(self) -> tuple[str, ...]:
        """Return every address that ever registered as a provider, in order of registration."""
        event = artifact("ProviderManager").events["ProviderWaitingForApproval"]
        log_filter = {"address": self._contracts.providers.address, "topics": [event.topic]}
        head = to_block(self._node.ask("eth_getBlockByNumber", "latest", False))
        logs = read_logs(self._node, log_filter, first=self._first_block, end=head)
        addresses = [str(event.decode(log)["addr"]).lower() for log in logs]
        return tuple(dict.fromkeys(addresses))

    def approve_provider(self, address: str) -> None:
        """Approve a provider's waiting record. Only administrators of the grid may call this.

        With contracts of 3.x, the record is the one that waits when this method is called.

        Raises:
            TransactionReverted: If no record waits, or the provider has replaced the record.
        """
        providers = self._contracts.providers
        if not self._contracts.approves_records:
            self._transact("approve", providers.approve(address))
            return
        record = self._read(providers.waiting(address))
        self._transact("approveRecord", providers.approve_record(address, record))

    def remove_provider(self, address: str) -> None:
        """Remove a provider from the grid. Only administrators of the grid may call this."""
        self._transact("remove", self._contracts.providers.remove(address))

    def _permit(self, amount: int) -> CreditPermit:
        credit = self._contracts.credit
        head = to_block(self._node.ask("eth_getBlockByNumber", "latest", False))
        deadline = head.timestamp + PERMIT_S
        nonce = self._value(credit.nonce(self.address))
        spender = self._contracts.meta_scheduler.address
        chain_id = self._contracts.chain_id
        document = credit.permit_document(
            chain_id, self.address, spender, amount, nonce=nonce, deadline=deadline
        )
        v, r, s = self._wallet.sign_typed(document)
        return CreditPermit(deadline=deadline, v=v, r=r, s=s)

    def _value(self, view: ViewCall[T]) -> T:
        return view.value(self._read(view))

    def _read(self, view: ViewCall[T]) -> bytes:
        """Return the return data of a view at the newest block."""
        (answer,) = self._node.batch([("eth_call", [view.read, "latest"])])
        if isinstance(answer, RpcError):
            if answer.is_revert:
                raise reverted(view.function, answer)
            raise unavailable(answer, view.function)
        return to_bytes(answer)

    def _transact(self, name: str, payload: Payload) -> dict[str, Any]:
        """Send a transaction and return its receipt."""
        (receipt,) = self._direct.transact_all([payload], name=name)
        return receipt


def to_arguments(request: JobRequest) -> tuple[tuple[Any, ...], int, bytes, bool]:
    """Return the arguments of requestNewJob."""
    resources = request.resources
    definition = (
        resources.gpus,
        resources.memory_per_cpu_mb,
        resources.cpus_per_task,
        resources.tasks,
        request.batch_location_hash,
        STORED_BY_GRID,
        [(label.key, label.value) for label in request.uses],
        [_to_affinity(condition) for condition in request.affinity],
    )
    return (
        definition,
        request.escrow,
        request.name.encode().ljust(NAME_BYTES, b"\0"),
        request.delegate,
    )


def _to_affinity(condition: Affinity) -> tuple[tuple[str, str], bytes]:
    return (condition.key, condition.value), condition.operator.encode().ljust(2, b"\0")


def _job_number(receipt: Mapping[str, Any]) -> int:
    event = artifact("MetaScheduler").events["NewJobRequestEvent"]
    for log in receipt["logs"]:
        if log["topics"] and log["topics"][0] == event.topic:
            return int.from_bytes(event.decode(log)["_jobId"])
    raise UnexpectedOutput("requestNewJob", "no NewJobRequestEvent in its receipt")
