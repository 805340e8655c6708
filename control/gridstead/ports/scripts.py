# SPDX-License-Identifier: Apache-2.0
"""The rendered scripts of jobs, and the modules that they are made with."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from gridstead.domain.job import Job
from gridstead.domain.job_definition import Holdings, Resealed, ScriptUse, StoredScript
from gridstead.domain.submission import Script
from gridstead.workflow.schema import ModuleSource


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

        A script without owner belongs to the first customer whose job names it. A job of anybody
        else, or of a script that is not here, changes nothing.
        """
        ...

    def uses(self) -> tuple[ScriptUse, ...]:
        """Return which jobs name scripts that are here, sorted by job."""
        ...

    def release(self, uses: Iterable[ScriptUse], *, ends_at: int) -> None:
        """Forget that jobs name scripts; one that no job names any more ends then (Unix seconds).
        Safe to repeat.
        """
        ...

    def sweep(self, now: int) -> int:
        """Remove what has ended before a time (Unix seconds), and return how many scripts."""
        ...

    def reseal(self, *, after: str) -> Resealed:
        """Seal some records anew that are not sealed with the newest key, in the order of their
        ids.

        Args:
            after: The id after which to begin; empty: with the first.
        """
        ...

    def holdings(self) -> Holdings:
        """Return how much is stored."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Return what one process at a time can enter, of all that share the store; others wait."""
        ...


class TakenNonces(Protocol):
    """Which challenges were answered."""

    def take(self, nonce: str, *, ends_at: int) -> bool:
        """Return whether this is the first time, and remember it until then (Unix seconds)."""
        ...


class Modules(Protocol):
    """Where modules of workflows come from."""

    def text(self, source: ModuleSource) -> str:
        """Return a module's text, within bounds of time and size; what a tag or a branch names may
        be a while old.

        Raises:
            InvalidInput: There is none, it is too large, or its host is not allowed; asking again
                is pointless.
            ModuleUnavailable: Its host did not answer, or not in time.
            TooMuch: Too many are being fetched; this one is not waited for.
        """
        ...
