# SPDX-License-Identifier: Apache-2.0
"""Ports of the rendered scripts of jobs, and of the modules of workflows."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from gridstead.domain.definitions.job_definition import (
    ResealResult,
    ScriptTotals,
    ScriptUse,
    StoredScript,
)
from gridstead.domain.jobs.job import Job
from gridstead.domain.supervisor.submission import Script
from gridstead.workflow.schema import ModuleSource


class ScriptSource(Protocol):
    """The provider's access to the Job Definition service."""

    def fetch(self, job: Job) -> Script:
        """Authenticate with the provider's wallet and return the script of a job.

        The job must be matched to the provider.

        Raises:
            ScriptUnavailable: If the service has no such script. Another request would not help.
            JobDefinitionUnavailable: If the service did not answer or refused the request for now.
        """
        ...


class ScriptStore(Protocol):
    """The rendered scripts of the Job Definition service. A stored script survives a crash.

    A job on the chain names a script by the script's id, the batch location hash. A script that no
    job names has a time at which the script expires.
    """

    def put(self, script_id: str, record: str, *, owner: str, expires_at: int) -> None:
        """Store a record under an id. Storing the same record again changes nothing.

        Args:
            script_id: The id of the script.
            record: The stored text of the script. Function ``script_id`` computes the id from
                this text.
            owner: The customer whose jobs may use the script. If empty, the first customer whose
                job names the script becomes the owner.
            expires_at: When the script expires if no job names the script. Unit: Unix seconds.
        """
        ...

    def get(self, script_id: str) -> StoredScript | None:
        """Return the script with an id. Returns None if no script has the id.

        Raises:
            ConfigError: If the operator has removed the key with which the script is encrypted.
            ScriptDamaged: If the record was altered.
        """
        ...

    def add_uses(self, uses: Iterable[ScriptUse]) -> None:
        """Store which jobs name which scripts. Safe to repeat.

        ``uses`` must be in the order of their events on the chain.

        The first customer whose job names a script without owner becomes the owner. Jobs of other
        customers and jobs with an unknown script are ignored.
        """
        ...

    def uses(self) -> tuple[ScriptUse, ...]:
        """Return which jobs name stored scripts, sorted by job."""
        ...

    def release(self, uses: Iterable[ScriptUse], *, expires_at: int) -> None:
        """Store that jobs no longer name scripts. Safe to repeat.

        A script that no job names after this change expires at ``expires_at``. Unit: Unix seconds.
        """
        ...

    def sweep(self, now: int) -> int:
        """Remove the scripts that have expired, and return how many were removed.

        Args:
            now: The current time. Unit: Unix seconds.
        """
        ...

    def reseal(self, *, after_id: str) -> ResealResult:
        """Encrypt some of the records again: records with an old key get the newest key.

        The records are processed in the order of their ids.

        Args:
            after_id: The id after which to start. Empty for the first record.
        """
        ...

    def totals(self) -> ScriptTotals:
        """Return the number and the size of the stored scripts."""
        ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Return a lock that excludes all other processes that use the store."""
        ...


class UsedNonces(Protocol):
    """The nonces of challenges that clients have answered. A challenge can be used once."""

    def mark_used(self, nonce: str, *, expires_at: int) -> bool:
        """Store a nonce until ``expires_at``, and return whether the nonce was new.

        Unit: ``expires_at`` Unix seconds.
        """
        ...


class Modules(Protocol):
    """The modules of workflows."""

    def text(self, source: ModuleSource) -> str:
        """Return the text of a module, within a limit of time and size.

        If the source names a tag or a branch, the text may come from a cache.

        Raises:
            InvalidInput: If the module does not exist, is too large, or is on a host that is not
                allowed. Another request would not help.
            ModuleUnavailable: If a later attempt may succeed.
            LimitExceeded: If too many modules are being fetched.
        """
        ...
