# SPDX-License-Identifier: Apache-2.0
"""Scripts and logs in memory, a ledger with one job, and a wallet: what the tests of these services stand on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from eth_account import Account
from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount

from gridstead.domain.billing import Resources
from gridstead.domain.ids import JobId
from gridstead.domain.job import Block, Job
from gridstead.domain.lifecycle import JobState
from gridstead.domain.log import Chunk, LogId, StoredChunk, Stream
from gridstead.errors import ChainUnavailable, InvalidInput, LogFull, ModuleUnavailable
from gridstead.workflow.schema import ModuleSource

CONTRACT = "0x" + "5c" * 20


@dataclass
class MemoryScripts:
    """Port ScriptStore."""

    records: dict[str, str] = field(default_factory=dict)

    def put(self, batch_location_hash: str, record: str) -> None:
        self.records.setdefault(batch_location_hash, record)

    def get(self, batch_location_hash: str) -> str | None:
        return self.records.get(batch_location_hash)


@dataclass
class MemoryModules:
    """Port Modules: texts by their sources."""

    texts: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    unavailable: bool = False

    def text(self, source: ModuleSource) -> str:
        self.asked.append(str(source))
        if self.unavailable:
            raise ModuleUnavailable(f"could not fetch {source}")
        if str(source) not in self.texts:
            raise InvalidInput(f"cannot use {source}", detail="there is no such tag or commit")
        return self.texts[str(source)]


@dataclass
class MemoryLogs:
    """Port LogSink; ``synced`` is what would survive a power cut, in chunks."""

    max_bytes: int = 10**6
    logs: dict[LogId, list[StoredChunk]] = field(default_factory=dict)
    synced: dict[LogId, int] = field(default_factory=dict)
    swept_at: int = 0

    def append(self, log: LogId, chunk: Chunk) -> None:
        stored = self.logs.setdefault(log, [])
        known = [one.chunk.sequence for one in stored if one.chunk.writer == chunk.writer]
        if stored and stored[-1].chunk.stream is Stream.GRID:
            raise LogFull(f"log {log.name} is full")
        if chunk.writer and known and chunk.sequence <= max(known):
            return
        if sum(len(one.chunk.data) for one in stored) + len(chunk.data) > self.max_bytes:
            self._add(stored, Chunk(data=b"gridstead: full", timestamp_ns=chunk.timestamp_ns, stream=Stream.GRID))
            raise LogFull(f"log {log.name} is full")
        self._add(stored, chunk)

    def _add(self, stored: list[StoredChunk], chunk: Chunk) -> None:
        last = stored[-1] if stored else None
        line = last.first_line + last.chunk.lines if last else 1
        stored.append(StoredChunk(chunk=chunk, start=len(stored), end=len(stored) + 1, first_line=line))

    def sync(self, log: LogId) -> None:
        self.synced[log] = len(self.logs.get(log, []))

    def read(self, log: LogId, *, after: int) -> tuple[StoredChunk, ...]:
        return tuple(self.logs.get(log, [])[after:])

    def newest(self, owner: str, name: str) -> LogId | None:
        found = [log for log in self.logs if (log.owner, log.name) == (owner, name)]
        return found[-1] if found else None

    def names(self, owner: str) -> tuple[str, ...]:
        return tuple(sorted({log.name for log in self.logs if log.owner == owner}))

    def sweep(self, now: int) -> int:
        self.swept_at = now
        return 0


@dataclass
class Wallet:
    """A key that signs as wallets do; ``low_v`` writes v as 0 or 1."""

    account: LocalAccount = field(default_factory=Account.create)
    low_v: bool = False

    @property
    def address(self) -> str:
        return str(self.account.address).lower()

    def sign(self, message: bytes) -> bytes:
        signature = bytes(self.account.sign_message(encode_defunct(primitive=message)).signature)
        return signature[:-1] + bytes([signature[-1] - 27]) if self.low_v else signature


@dataclass
class OneJobLedger:
    """The part of port Ledger that is asked for one job."""

    job: Job | None = None
    down: bool = False

    def head(self) -> Block:
        if self.down:
            raise ChainUnavailable("could not reach the chain")
        return Block(number=7, hash="0x" + "00" * 32, timestamp=1_800_000_000)

    def jobs(self, numbers: Iterable[int], *, at: Block) -> dict[int, Job]:
        return {self.job.id.number: self.job} if self.job and self.job.id.number in numbers else {}


def matched_job(customer: str, provider: str, batch_location_hash: str, state: JobState = JobState.SCHEDULED) -> Job:
    """A job that the chain has given to the provider."""
    return Job(
        id=JobId(chain_id=179188, contract=CONTRACT, number=5),
        state=state, customer=customer, provider=provider, batch_location_hash=batch_location_hash,
        resources=Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=64),
        lock=10**18, submitted_at=1_800_000_000, state_block=6,
    )  # fmt: skip


def wire_workflow(**changes: object) -> dict[str, object]:
    """A small workflow as the wire has it."""
    resources = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 64, "gpus": 0}
    return {"resources": resources, "steps": [{"name": "hello", "run": {"command": "echo hello"}}], **changes}
