# SPDX-License-Identifier: Apache-2.0
"""What services need of the outside world, in their own words.

A port tells guarantees; adapters keep them, and one contract test per port holds fake and real to them.
Every method may raise the Transient error of its system; then nothing is known of the effect unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gridstead.domain.attempt import AccountingSample, Attempt, LiveSample, NodeReport
from gridstead.domain.calls import Call
from gridstead.domain.events import Event
from gridstead.domain.expiry import Timeouts
from gridstead.domain.hint import Hint, OpenedSeal
from gridstead.domain.job import Block, Hardware, Job, Provider, QueueSizes
from gridstead.domain.job_definition import Holdings, ScriptUse, StoredScript
from gridstead.domain.journal import Entry
from gridstead.domain.log import Chunk, LogId, StoredChunk
from gridstead.domain.sending import EntryChange, Fees, OutboxEntry, Receipt, Reply, Transaction
from gridstead.domain.submission import Gate, GridUser, Script, Submission
from gridstead.errors import TransactionReverted


class Clock(Protocol):
    """Wall time."""

    def now(self) -> int:
        """Return Unix seconds."""
        ...


class Ledger(Protocol):
    """The read side of the grid's contracts. Every answer is pinned to the block it is asked at."""

    def head(self) -> Block:
        """Return the newest block."""
        ...

    def block(self, number: int) -> Block | None:
        """Return the block at that height of the present history, None if the chain is shorter."""
        ...

    def jobs(self, numbers: Iterable[int], *, at: Block) -> Mapping[int, Job]:
        """Return the jobs that exist at that block by number; an unknown number is left out."""
        ...

    def events(self, *, first: int, end: Block) -> tuple[Event, ...]:
        """Return the grid's events from a height to a block, both included, in chain order, of that block's history.

        A ledger may be made for the claims of one provider; then these are all that it must return.
        """
        ...

    def queue_sizes(self, provider: str, *, at: Block) -> QueueSizes:
        """Return how many entries wait in the provider's queues; stale ones may be counted."""
        ...

    def providers(self, addresses: Iterable[str], *, at: Block) -> Mapping[str, Provider]:
        """Return the records of these providers; one that never registered is left out."""
        ...

    def waiting_provider(self, address: str, *, at: Block) -> Provider | None:
        """Return the provider's record that waits for approval, None if none does."""
        ...

    def timeouts(self, *, at: Block) -> Timeouts:
        """Return how long the grid waits for its providers."""
        ...


class Account(Protocol):
    """The write side of the grid's contracts, for one wallet."""

    @property
    def address(self) -> str:
        """The wallet, lower case."""
        ...

    def nonce(self, *, at: Block) -> int:
        """Return how many transactions of the wallet the chain holds at that block."""
        ...

    def fees(self) -> Fees:
        """Return what a transaction should offer to be in one of the next blocks."""
        ...

    def receipts(self, hashes: Iterable[str]) -> Mapping[str, Receipt]:
        """Return the receipts of those transactions that are in a block of the present history."""
        ...

    def gas(self, batches: Sequence[Sequence[Call]]) -> tuple[int | TransactionReverted, ...]:
        """Return for each batch of calls of one kind the gas limit of its transaction.

        Or why the contract would refuse it as a whole now; one without calls is never refused.
        """
        ...

    def sign(
        self, calls: Sequence[Call], *, entry_ids: tuple[int, ...], nonce: int, gas: int, fees: Fees
    ) -> Transaction:
        """Return a signed transaction with these calls; without calls, one that only uses up the nonce."""
        ...

    def gas_limit(self, *, at: Block) -> int:
        """Return how much gas that block could hold."""
        ...

    def gas_of(self, call: Call) -> int:
        """Return what a call adds to a batch at most; 0 if it is never in one with others."""
        ...

    def send(self, transactions: Sequence[Transaction]) -> tuple[Reply, ...]:
        """Give transactions to the node, in this order, and return its answer to each. Safe to repeat."""
        ...


class Outbox(Protocol):
    """Calls that a wallet must make. Durable: what put() took survives any crash."""

    def put(self, key: str, call: Call) -> None:
        """Store a call to be sent. While an entry of this key is open, this changes nothing."""
        ...

    def put_all(self, calls: Iterable[tuple[str, Call]]) -> None:
        """Store calls to be sent, each with its key, in this order, all or none."""
        ...

    def open_entries(self) -> tuple[OutboxEntry, ...]:
        """Return the entries whose transaction is not final yet, oldest first."""
        ...


class Transactions(Protocol):
    """The signed transactions that carry an outbox, in the same store.

    An *account* is a wallet on one chain: the hash of the chain's first block and the address. What was signed for
    another account is not seen, so nothing of an old chain is ever sent to a fresh one. What is signed anew there may
    well be the same transaction, with the same hash.
    """

    def next_entries(self, most: int) -> tuple[OutboxEntry, ...]:
        """Return the entries that are SENT or MINED and the oldest of those QUEUED, so many at most, oldest first."""
        ...

    def open_transactions(self, account: str) -> tuple[Transaction, ...]:
        """Return the transactions whose nonce is not closed, by nonce and then age."""
        ...

    def add(self, account: str, *transactions: Transaction) -> None:
        """Store transactions that are about to be sent, all or none; their entries are SENT from now on."""
        ...

    def mark_sent(self, account: str, hashes: Iterable[str], *, at: int) -> None:
        """Store that the node took these transactions of the account at that time (Unix seconds)."""
        ...

    def record(
        self, account: str, *, changes: Iterable[EntryChange], withdrawn: Iterable[int], closed: Iterable[int]
    ) -> None:
        """Store new states of entries, withdraw all transactions of some nonces and close other nonces, all or none."""
        ...


class Journal(Protocol):
    """The append-only memory of a service."""

    def append(self, entries: Iterable[Entry]) -> None:
        """Store the entries, all or none, before returning."""
        ...

    def open_entries(self) -> tuple[Entry, ...]:
        """Return all entries of jobs without a closing entry, in the order they were stored."""
        ...


class Cursor(Protocol):
    """How far a reader of the chain has come."""

    def load(self) -> Block | None:
        """Return the last block that was covered, None at the very start."""
        ...

    def save(self, block: Block) -> None:
        """Store the block and forget those of its height and above. Call only after all that it covers is stored."""
        ...

    def history(self) -> tuple[Block, ...]:
        """Return the last blocks that were saved and not forgotten, newest first, at most 64."""
        ...


class Scheduler(Protocol):
    """Slurm, for jobs of wallet users only."""

    def submit(self, submission: Submission) -> int:
        """Queue an attempt and return its Slurm job id.

        Raises:
            SubmitRejected: Slurm said no; nothing is queued.
            SchedulerUnavailable: It is not known whether it is queued: look before asking again.
        """
        ...

    def cancel(self, slurm_job_id: int, *, proof: str) -> None:
        """Ask Slurm to end an attempt, if its AdminComment is this proof; anything else is left alone.

        Calling it again, or for an attempt that has ended or is unknown, is safe.
        """
        ...

    def extend(self, slurm_job_id: int, *, proof: str, time_limit_min: int) -> None:
        """Raise an attempt's time limit to so many minutes, if its AdminComment is this proof. Safe to repeat."""
        ...

    def live(self) -> LiveSample:
        """Return what slurmctld lists now."""
        ...

    def accounting(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return what slurmdbd has under these job names, submitted since then (Unix seconds)."""
        ...

    def gate(self, address: str) -> Gate:
        """Return whether this customer can run here; make the Slurm association if only that is missing."""
        ...

    def hardware(self) -> Hardware:
        """Return the cluster's nodes as Slurm has them, sorted by node name."""
        ...


class Reports(Protocol):
    """What plugins said; hints."""

    def pull(self, *, after: int, wait_s: float) -> tuple[NodeReport, ...]:
        """Return the next reports with a greater sequence, not always all; waits up to so long for the first.

        Shape: sorted by sequence; empty only if there is none.
        """
        ...


class ScriptSource(Protocol):
    """The Job Definition service, as a provider sees it."""

    def fetch(self, job: Job) -> Script:
        """Prove our wallet and return the script of a job that is matched to us.

        Raises:
            ScriptUnavailable: It is not there; asking again is pointless.
            JobDefinitionUnavailable: Time may help; the service did not answer, or refused us.
        """
        ...


class ScriptStore(Protocol):
    """Where the Job Definition service keeps rendered scripts. What is stored survives a crash.

    A script *ends* at a time, unless a job names it.
    """

    def put(self, batch_location_hash: str, record: str, *, owner: str, ends_at: int) -> None:
        """Store a record under an id; the same again changes nothing.

        Args:
            batch_location_hash: The id.
            record: What is kept.
            owner: The customer whose jobs alone it is for; empty: of the first that names it.
            ends_at: Until when it is kept while no job names it (Unix seconds).
        """
        ...

    def get(self, batch_location_hash: str) -> StoredScript | None:
        """Return what is stored under an id, None if nothing is.

        Raises:
            ConfigError: The operator took away the key that it is sealed with.
            ScriptDamaged: It was altered.
        """
        ...

    def use(self, uses: Iterable[ScriptUse]) -> None:
        """Store that jobs name scripts, in the order of the chain. Safe to repeat.

        A script without owner belongs to the first customer whose job names it. A job of anybody else, or of a script
        that is not here, changes nothing.
        """
        ...

    def uses(self) -> tuple[ScriptUse, ...]:
        """Return which jobs name scripts that are here, sorted by job."""
        ...

    def release(self, uses: Iterable[ScriptUse], *, ends_at: int) -> None:
        """Forget that jobs name scripts; one that no job names any more ends then (Unix seconds). Safe to repeat."""
        ...

    def sweep(self, now: int) -> int:
        """Remove what has ended before a time (Unix seconds), and return how many scripts."""
        ...

    def reseal(self) -> int:
        """Seal some records anew that are not sealed with the newest key, and return how many; 0: none is left."""
        ...

    def holdings(self) -> Holdings:
        """Return how much is stored."""
        ...

    def alone(self) -> AbstractContextManager[None]:
        """Return what one process at a time can enter, of all that share the store; others wait."""
        ...


class TakenNonces(Protocol):
    """Which challenges were answered."""

    def take(self, nonce: str, *, ends_at: int) -> bool:
        """Return whether this is the first time, and remember it until then (Unix seconds)."""
        ...


class Directory(Protocol):
    """LDAP: the wallet users."""

    def ensure_users(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Make the users that do not exist and return those that were made. Safe to repeat."""
        ...

    def users(self) -> tuple[GridUser, ...]:
        """Return all wallet users."""
        ...


class UserDirectories(Protocol):
    """Home and cache directories on the shared storage."""

    def ensure(self, user: GridUser) -> bool:
        """Make the user's directories, owned by it, mode 0700, and return whether anything was made."""
        ...


class LogSink(Protocol):
    """Where jobs' output is kept, chunk by chunk."""

    def append(self, log: LogId, chunk: Chunk) -> None:
        """Store a chunk behind the others; readers see it at once. One that its writer has stored before is left out.

        It survives a crash of ours, not yet one of the host.

        Raises:
            LogFull: The log has reached its limit; its last line says so.
        """
        ...

    def sync(self, log: LogId) -> None:
        """Make all lines of the log durable before returning."""
        ...

    def read(self, log: LogId, *, after: int) -> tuple[StoredChunk, ...]:
        """Return chunks behind a position, in order; empty when there is no more yet. 0 is the beginning.

        Raises:
            LogDamaged: There is no chunk at this position, or it does not open.
        """
        ...

    def newest(self, owner: str, name: str) -> LogId | None:
        """Return the edition of a name that was begun last, None if there is none."""
        ...

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of this owner's logs, sorted."""
        ...

    def sweep(self, now: int) -> int:
        """Remove logs that are too old or too much at a time (Unix seconds), and return how many."""
        ...


class Slurm(Protocol):
    """Slurm as the agent beside it has it: SlurmUser's hands. Who may ask for what is decided above it."""

    def submit(self, submission: Submission) -> int:
        """Queue an attempt and return its Slurm job id; errors and guarantees as in Scheduler."""
        ...

    def find(self, slurm_job_id: int) -> Attempt | None:
        """Return a job that slurmctld lists, None if it lists none of this id."""
        ...

    def cancel(self, slurm_job_id: int) -> None:
        """Ask Slurm to end a job, whosever it is; one that has ended or is unknown is left alone."""
        ...

    def extend(self, slurm_job_id: int, *, time_limit_min: int) -> None:
        """Set a job's time limit to so many minutes; one that has ended or is unknown is left alone."""
        ...

    def live(self) -> LiveSample:
        """Return what slurmctld lists now."""
        ...

    def accounting(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return what slurmdbd has under these job names, submitted since then (Unix seconds)."""
        ...

    def hardware(self) -> Hardware:
        """Return the cluster's nodes as Slurm has them, sorted by node name."""
        ...


class Accounts(Protocol):
    """What a customer needs on this host before a job of its may start."""

    def user(self, address: str) -> GridUser | None:
        """Return the account that the name resolves to, None while it resolves to none."""
        ...

    def missing_directories(self, user: GridUser) -> tuple[str, ...]:
        """Return the user's directories that are not there or not its own, in words."""
        ...

    def associate(self, address: str) -> None:
        """Make sure that Slurm's accounting knows the user. Safe to repeat, and cheap once it is so."""
        ...


class ReportStore(Protocol):
    """What plugins said, in order, durable before it is offered."""

    def add(self, hints: Iterable[Hint]) -> None:
        """Store hints under growing sequences; one that is there already changes nothing."""
        ...

    def after(self, sequence: int, *, wait_s: float) -> tuple[NodeReport, ...]:
        """Return reports with a greater sequence, waiting up to so long for the first. May be empty."""
        ...

    def forget(self, *, before: int) -> None:
        """Delete what was stored before then (Unix seconds)."""
        ...


class CompletionSpool(Protocol):
    """The file that the job completion plugin appends to."""

    def take(self) -> tuple[str, ...]:
        """Return the oldest lines that were not given back yet; the same again until ``done``. May be empty."""
        ...

    def done(self, *, rejected: Iterable[str]) -> None:
        """Forget the lines of the last ``take``, all but the rejected, which are put aside for the operator."""
        ...


class Seal(Protocol):
    """MUNGE."""

    def open(self, sealed: bytes) -> OpenedSeal:
        """Return what was sealed and by whom.

        Raises:
            NotAllowed: It is no fresh credential of this cluster, or was opened before.
        """
        ...
