# SPDX-License-Identifier: Apache-2.0
"""What people ask of the contracts: customers, and administrators of a grid. Each write is sent and
waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from gridstead.adapters.chain.abi import artifact, reverted
from gridstead.adapters.chain.contract import Payload, ViewCall
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.direct import DirectSender
from gridstead.adapters.chain.job_history import HistoryEvent, read_job_history
from gridstead.adapters.chain.logs import read_logs
from gridstead.adapters.chain.money import CreditPermit
from gridstead.adapters.chain.node import Node, RpcError, to_block, unavailable
from gridstead.adapters.chain.wallet import Wallet
from gridstead.domain.billing import MAX_CPUS, MAX_GPUS, MAX_MEMORY_MB, Resources
from gridstead.domain.job import Affinity, Label
from gridstead.errors import InvalidInput, UnexpectedOutput

T = TypeVar("T")

STORED_BY_GRID = 0
NAME_BYTES = 32
PERMIT_S = 3600  # how long a permit that is not used yet can be
MAX_HASH_BYTES = 128  # these three are bounds of Definitions.sol
MAX_LABELS = 16
MAX_LABEL_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What a customer asks for.

    Attributes:
        resources: Of the whole job.
        batch_location_hash: Id of its script at the Job Definition service.
        lock: Credits to lock, wei.
        name: For the customer; at most 32 bytes.
        uses: Labels that a provider must have.
        affinity: Conditions on a provider's labels.
        delegate: Whether others may top it up from the customer's allowance.

    Raises:
        InvalidInput: The contracts would refuse it, whatever its script is.
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
        asked = self.resources
        if asked.cpus > MAX_CPUS or asked.memory_mb > MAX_MEMORY_MB or asked.gpus > MAX_GPUS:
            detail = f"{asked.cpus} CPU threads, {asked.memory_mb} MB, {asked.gpus} GPUs"
            hint = f"The grid takes at most {MAX_CPUS} CPU threads, {MAX_MEMORY_MB} MB and {MAX_GPUS} GPUs."
            raise InvalidInput(
                "job asks for more than the grid can count", detail=detail, hint=hint
            )

    def _check_texts(self) -> None:
        labels = [text for one in self.uses for text in (one.key, one.value)]
        labels += [text for one in self.affinity for text in (one.key, one.value)]
        if len(labels) > 2 * MAX_LABELS:
            raise InvalidInput(
                "job has too many labels", detail=f"{len(labels) // 2} of {MAX_LABELS}"
            )
        texts = [
            ("job name", self.name, NAME_BYTES),
            ("id of a script", self.batch_location_hash, MAX_HASH_BYTES),
        ]
        for what, text, most in [*texts, *(("label", text, MAX_LABEL_BYTES) for text in labels)]:
            try:
                size = len(text.encode())
            except UnicodeEncodeError as err:
                raise InvalidInput(
                    f"invalid {what} {text[:80]!r}", detail="it is not UTF-8"
                ) from err
            if size > most:
                raise InvalidInput(
                    f"invalid {what} {text[:80]!r}", detail=f"{size} bytes of {most}"
                )


class Customer:
    """The contracts as one person sees them. Units: credits in wei.

    Args:
        node: The chain.
        contracts: The grid.
        wallet: Who asks.
        first_block: Events before it are not looked for.
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
        """The wallet, lower case."""
        return self._direct.address

    def balance(self, address: str | None = None) -> int:
        """Return the credits of a wallet, ours if none is named."""
        return self._value(self._contracts.credit.balance_of(address or self.address))

    def coins(self, address: str | None = None) -> int:
        """Return the chain's own coin that a wallet has to pay for gas, wei."""
        return int(self._node.ask("eth_getBalance", address or self.address, "latest"), 16)

    def allowance(self) -> int:
        """Return how many of our credits the grid may lock."""
        spender = self._contracts.meta_scheduler.address
        return self._value(self._contracts.credit.allowance(self.address, spender))

    def minimum_escrow(self) -> int:
        """Return the least that a job must lock."""
        return self._value(self._contracts.constants.minimum_amount())

    def fee_percent(self) -> int:
        """Return the grid's share of a bill, percent."""
        return self._value(self._contracts.constants.fee_percent())

    def allow(self, amount: int) -> None:
        """Let the grid lock so many of our credits from now on."""
        self._transact(
            "approve",
            self._contracts.credit.approve(self._contracts.meta_scheduler.address, amount),
        )

    def mint(self, address: str, amount: int) -> None:
        """Make new credits for a wallet; for the owner of Credit."""
        self._transact("mint", self._contracts.credit.mint(address, amount))

    def transfer(self, address: str, amount: int) -> None:
        """Give a wallet some of our credits."""
        self._transact("transfer", self._contracts.credit.transfer(address, amount))

    def request_job(self, request: JobRequest) -> int:
        """Lock credits, ask for a job and return its number.

        Raises:
            TransactionReverted: If the grid refuses, as for a lack of credits or of allowance.
        """
        (number,) = self.request_jobs([request])
        return number

    def request_jobs(self, requests: Iterable[JobRequest]) -> tuple[int, ...]:
        """Lock credits and ask for jobs, all at once, and return their numbers in order.

        Raises:
            TransactionReverted: If the grid refuses one; jobs beside it may exist.
        """
        grid = self._contracts.meta_scheduler
        data = [
            grid.request_new_job(definition, escrow, name, delegate=delegate).data
            for definition, escrow, name, delegate in map(to_arguments, requests)
        ]
        receipts = self._direct.transact_all(grid.address, data, name="requestNewJob")
        return tuple(_number(receipt) for receipt in receipts)

    def submit_job(self, request: JobRequest) -> int:
        """Let the grid lock what the job needs, if it may not yet, ask for the job and return its
        number.

        On our contracts both are one transaction, or none: the leave to lock is a signature beside
        the request.

        Raises:
            TransactionReverted: If the grid refuses, as for a lack of credits.
        """
        if self.allowance() >= request.escrow:
            return self.request_job(request)
        if not self._contracts.has_batches:
            self.allow(request.escrow)
            return self.request_job(request)
        definition, escrow, name, delegate = to_arguments(request)
        grid = self._contracts.meta_scheduler
        payload = grid.request_new_job_with_permit(
            definition, escrow, name, self._permit(escrow), delegate=delegate
        )
        return _number(
            self._direct.transact(payload.to, payload.data, name="requestNewJobWithPermit")
        )

    def cancel_job(self, number: int) -> None:
        """End a job of ours, or have its provider end it."""
        self._transact("cancelJob", self._contracts.meta_scheduler.cancel_job(number))

    def top_up(self, number: int, amount: int) -> None:
        """Lock more of our credits for a job that is claimed or runs."""
        self._transact("topUpJob", self._contracts.meta_scheduler.top_up_job(number, amount))

    def job_numbers(self, customer: str | None = None) -> tuple[int, ...]:
        """Return the numbers of a customer's jobs, ours if none is named, oldest first."""
        return self._value(self._contracts.jobs.by_customer(customer or self.address))

    def job_history(self, number: int) -> tuple[HistoryEvent, ...]:
        """Return what happened to a job, oldest first."""
        return read_job_history(self._node, self._contracts, number, first=self._first_block)

    def provider_addresses(self) -> tuple[str, ...]:
        """Return every wallet that ever asked to be a provider, in order of the first request."""
        event = artifact("ProviderManager").events["ProviderWaitingForApproval"]
        wanted = {"address": self._contracts.providers.address, "topics": [event.topic]}
        head = to_block(self._node.ask("eth_getBlockByNumber", "latest", False))
        logs = read_logs(self._node, wanted, first=self._first_block, end=head)
        return tuple(dict.fromkeys(str(event.decode(log)["addr"]).lower() for log in logs))

    def approve_provider(self, address: str) -> None:
        """Put the record of a provider that waits for approval in force; for the grid's
        administrators.
        """
        self._transact("approve", self._contracts.providers.approve(address))

    def remove_provider(self, address: str) -> None:
        """Take a provider out of the grid; for the grid's administrators."""
        self._transact("remove", self._contracts.providers.remove(address))

    def _permit(self, amount: int) -> CreditPermit:
        credit, grid = self._contracts.credit, self._contracts
        deadline = (
            to_block(self._node.ask("eth_getBlockByNumber", "latest", False)).timestamp + PERMIT_S
        )
        nonce = self._value(credit.nonce(self.address))
        spender = grid.meta_scheduler.address
        document = credit.permit_document(
            grid.chain_id, self.address, spender, amount, nonce=nonce, deadline=deadline
        )
        v, r, s = self._wallet.sign_typed(document)
        return CreditPermit(deadline=deadline, v=v, r=r, s=s)

    def _value(self, view: ViewCall[T]) -> T:
        (answer,) = self._node.batch(
            [("eth_call", [{"to": view.read.to, "data": view.read.data}, "latest"])]
        )
        if isinstance(answer, RpcError):
            if answer.is_revert:
                raise reverted(view.function, answer)
            raise unavailable(answer, view.function)
        return view.value(bytes.fromhex(answer[2:]))

    def _transact(self, name: str, payload: Payload) -> None:
        self._direct.transact(payload.to, payload.data, name=name)


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
        [((one.key, one.value), one.operator.encode().ljust(2, b"\0")) for one in request.affinity],
    )
    return (
        definition,
        request.escrow,
        request.name.encode().ljust(NAME_BYTES, b"\0"),
        request.delegate,
    )


def _number(receipt: Mapping[str, Any]) -> int:
    event = artifact("MetaScheduler").events["NewJobRequestEvent"]
    for log in receipt["logs"]:
        if log["topics"] and log["topics"][0] == event.topic:
            return int.from_bytes(event.decode(log)["_jobId"])
    raise UnexpectedOutput("requestNewJob", "no NewJobRequestEvent in its receipt")
