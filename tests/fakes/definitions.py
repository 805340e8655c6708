# SPDX-License-Identifier: Apache-2.0
"""In-memory fakes for the tests of the Job Definition service and the logger.

The fakes are a script store, a module source, a log store, a ledger with one job, and a wallet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from eth_account import Account
from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount
from tests.fakes.store import MemoryCursor

from gridstead.adapters.chain.wallet import recover
from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.definitions.job_definition import (
    ResealResult,
    ScriptTotals,
    ScriptUse,
    StoredScript,
)
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.logs.log import Chunk, LogId, StoredChunk, Stream
from gridstead.errors import ChainUnavailable, InvalidInput, LogFull, ModuleUnavailable
from gridstead.ports import Clock, Cursor, Ledger, Modules, ScriptStore
from gridstead.services.chain.follower import Follower
from gridstead.services.definitions.job_definitions import JobDefinitions, LoggerAccess
from gridstead.services.definitions.script_keeper import Retention, ScriptKeeper
from gridstead.workflow.schema import ModuleSource

CONTRACT = "0x" + "5c" * 20


def job_id(number: int) -> JobId:
    """Return the id of the job with this number."""
    return JobId(chain_id=179188, contract=CONTRACT, number=number)


@dataclass
class MemoryScripts:
    """A store in memory. Implements the ports ScriptStore and UsedNonces.

    Attributes:
        records: The stored scripts, by batch location hash.
        owners: The addresses of the owners, by batch location hash. An address is empty while the
            script has no owner.
        expiry_times: The times at which the scripts expire (Unix seconds), by batch location hash.
            None while a job uses the script.
        current_uses: The uses of scripts by jobs that have not ended.
        used_nonces: The times until which the nonces are stored, by nonce.
    """

    records: dict[str, str] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    expiry_times: dict[str, int | None] = field(default_factory=dict)
    current_uses: set[ScriptUse] = field(default_factory=set)
    used_nonces: dict[str, int] = field(default_factory=dict)

    def put(self, script_id: str, record: str, *, owner: str, expires_at: int) -> None:
        if script_id not in self.records:
            self.records[script_id] = record
            self.owners[script_id] = owner
            self.expiry_times[script_id] = expires_at

    def get(self, script_id: str) -> StoredScript | None:
        if script_id not in self.records:
            return None
        return StoredScript(record=self.records[script_id], owner=self.owners[script_id])

    def add_uses(self, uses: Iterable[ScriptUse]) -> None:
        for use in uses:
            script_id = use.batch_location_hash
            if script_id not in self.records:
                continue
            if not self.owners[script_id]:
                self.owners[script_id] = use.customer
            if self.owners[script_id] == use.customer:
                self.current_uses.add(use)
                self.expiry_times[script_id] = None

    def uses(self) -> tuple[ScriptUse, ...]:
        return tuple(
            sorted(self.current_uses, key=lambda use: (use.job_id, use.batch_location_hash))
        )

    def release(self, uses: Iterable[ScriptUse], *, expires_at: int) -> None:
        for use in uses:
            self.current_uses.discard(use)
            script_id = use.batch_location_hash
            was_used = self.expiry_times.get(script_id, 0) is None
            if was_used and not self._is_used(script_id):
                self.expiry_times[script_id] = expires_at

    def _is_used(self, script_id: str) -> bool:
        return any(use.batch_location_hash == script_id for use in self.current_uses)

    def sweep(self, now: int) -> int:
        for nonce, expires_at in list(self.used_nonces.items()):
            if expires_at < now:
                del self.used_nonces[nonce]
        expired_scripts = []
        for script_id, expires_at in self.expiry_times.items():
            if expires_at is not None and expires_at < now:
                expired_scripts.append(script_id)
        for script_id in expired_scripts:
            del self.records[script_id], self.owners[script_id], self.expiry_times[script_id]
        return len(expired_scripts)

    def reseal(self, *, after_id: str) -> ResealResult:
        return ResealResult(count=0, unreadable=(), last=None)

    def totals(self) -> ScriptTotals:
        unused, unused_bytes = 0, 0
        for script_id, expires_at in self.expiry_times.items():
            if expires_at is not None:
                unused += 1
                unused_bytes += len(self.records[script_id])
        return ScriptTotals(scripts=len(self.records), unused=unused, unused_bytes=unused_bytes)

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext()

    def mark_used(self, nonce: str, *, expires_at: int) -> bool:
        if nonce in self.used_nonces:
            return False
        self.used_nonces[nonce] = expires_at
        return True


@dataclass
class MemoryModules:
    """A source of modules in memory. Implements port Modules.

    Attributes:
        texts: The texts of the modules, by source.
        requested: The sources that were requested, in order.
        unavailable: While it is true, every request raises ModuleUnavailable.
    """

    texts: dict[str, str] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)
    unavailable: bool = False

    def text(self, source: ModuleSource) -> str:
        self.requested.append(str(source))
        if self.unavailable:
            raise ModuleUnavailable(f"could not fetch {source}")
        if str(source) not in self.texts:
            raise InvalidInput(f"cannot use {source}", detail="there is no such tag or commit")
        return self.texts[str(source)]


@dataclass
class MemoryLogs:
    """Implements port LogStore. ``synced`` contains the number of durable chunks of each log."""

    max_bytes: int = 10**6
    logs: dict[LogId, list[StoredChunk]] = field(default_factory=dict)
    synced: dict[LogId, int] = field(default_factory=dict)
    swept_at: int = 0

    def append(self, log: LogId, chunk: Chunk) -> None:
        stored_chunks = self.logs.setdefault(log, [])
        earlier_chunks = [stored_chunk.chunk for stored_chunk in stored_chunks]
        sequences = [
            earlier.sequence for earlier in earlier_chunks if earlier.writer == chunk.writer
        ]
        # The last chunk of a full log is a notice of the grid.
        if stored_chunks and stored_chunks[-1].chunk.stream is Stream.GRID:
            raise LogFull(f"log {log.name} is full")
        if chunk.writer and sequences and chunk.sequence <= max(sequences):
            return  # the chunk is already stored
        size = sum(len(earlier.data) for earlier in earlier_chunks)
        if size + len(chunk.data) > self.max_bytes:
            notice = Chunk(
                data=b"gridstead: full", timestamp_ns=chunk.timestamp_ns, stream=Stream.GRID
            )
            self._add(stored_chunks, notice)
            raise LogFull(f"log {log.name} is full")
        self._add(stored_chunks, chunk)

    def _add(self, stored_chunks: list[StoredChunk], chunk: Chunk) -> None:
        start, first_line = len(stored_chunks), 1
        if stored_chunks:
            last_chunk = stored_chunks[-1]
            first_line = last_chunk.first_line + last_chunk.chunk.line_count
        stored_chunks.append(
            StoredChunk(chunk=chunk, start=start, end=start + 1, first_line=first_line)
        )

    def sync(self, log: LogId) -> None:
        self.synced[log] = len(self.logs.get(log, []))

    def read(self, log: LogId, *, after: int) -> tuple[StoredChunk, ...]:
        return tuple(self.logs.get(log, [])[after:])

    def newest(self, owner: str, name: str) -> LogId | None:
        for log in reversed(self.logs):
            if log.owner == owner and log.name == name:
                return log
        return None

    def names(self, owner: str) -> tuple[str, ...]:
        return tuple(sorted({log.name for log in self.logs if log.owner == owner}))

    def _is_used(self, script_id: str) -> bool:
        return any(use.batch_location_hash == script_id for use in self.current_uses)

    def sweep(self, now: int) -> int:
        self.swept_at = now
        return 0


@dataclass
class Wallet:
    """A key that signs like a wallet. With ``low_v``, signatures end with 0 or 1, else 27 or 28."""

    account: LocalAccount = field(default_factory=Account.create)
    low_v: bool = False

    @property
    def address(self) -> str:
        return str(self.account.address).lower()

    def sign(self, message: bytes) -> bytes:
        signature = bytes(self.account.sign_message(encode_defunct(primitive=message)).signature)
        if self.low_v:
            return signature[:-1] + bytes([signature[-1] - 27])
        return signature


class OneJobLedger:
    """A ledger with one job. It has only some of the methods of port Ledger.

    Each assignment to ``job`` adds a block with an event for the job.
    """

    def __init__(self) -> None:
        self.down = False
        self.height = 7
        self._job: Job | None = None
        self._events: list[ChainEvent] = []

    @property
    def job(self) -> Job | None:
        return self._job

    @job.setter
    def job(self, job: Job | None) -> None:
        self._job = job
        self.height += 1
        if job is not None:
            kind = ChainEventKind.JOB_REQUESTED
            self._events.append(ChainEvent(kind=kind, block=self.height, index=0, job_id=job.id))

    def head(self) -> Block:
        if self.down:
            raise ChainUnavailable("could not reach the chain")
        return self.block(self.height)

    def block(self, number: int) -> Block:
        return Block(number=number, hash=f"0x{number:064x}", timestamp=1_800_000_000)

    def events(self, *, first: int, end: Block) -> tuple[ChainEvent, ...]:
        return tuple(event for event in self._events if first <= event.block <= end.number)

    def jobs(self, job_ids: Iterable[JobId], *, at_block: Block) -> dict[JobId, Job]:
        if self.job is None or self.job.id not in job_ids:
            return {}
        return {self.job.id: self.job}


def new_keeper(
    scripts: ScriptStore,
    ledger: Ledger,
    clock: Clock,
    *,
    cursor: Cursor | None = None,
    unused_bytes: int = 10**9,
) -> ScriptKeeper:
    """Return a script keeper on these fakes.

    The keeper retains a script for an hour after the end of its last job. If no job ever used the
    script, the keeper retains it for a day.
    """
    retention = Retention(after_end_s=3600, unused_s=86_400, max_unused_bytes=unused_bytes)
    follower = Follower(ledger, cursor or MemoryCursor())
    return ScriptKeeper(
        store=scripts, ledger=ledger, follower=follower, clock=clock, retention=retention
    )


def new_service(
    scripts: MemoryScripts,
    ledger: Ledger,
    clock: Clock,
    *,
    key: bytes,
    modules: Modules | None = None,
    sleep: Callable[[float], None] = lambda _: None,
) -> JobDefinitions:
    """Return a Job Definition service on these fakes."""
    return JobDefinitions(
        keeper=new_keeper(scripts, ledger, clock),
        nonces=scripts,
        challenge_keys=(key,),
        ledger=ledger,
        clock=clock,
        recover=recover,
        logger=LoggerAccess(url="logger:8445", key=key),
        modules=modules or MemoryModules(),
        sleep=sleep,
    )


def matched_job(
    customer: str, provider: str, batch_location_hash: str, state: JobState = JobState.SCHEDULED
) -> Job:
    """Return a job that the chain has matched to the provider."""
    return Job(
        id=job_id(5),
        state=state,
        customer=customer,
        provider=provider,
        batch_location_hash=batch_location_hash,
        resources=Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=64),
        escrow=10**18,
        submitted_at=1_800_000_000,
        state_block=6,
    )


def wire_workflow(**changes: object) -> dict[str, object]:
    """Return a small workflow in its GraphQL form. ``changes`` replaces top-level fields."""
    resources = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 64, "gpus": 0}
    return {
        "resources": resources,
        "steps": [{"name": "hello", "run": {"command": "echo hello"}}],
        **changes,
    }
