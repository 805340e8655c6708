# SPDX-License-Identifier: Apache-2.0
"""The rendered scripts of jobs, and the modules that they are made with."""

from __future__ import annotations

from typing import Protocol

from gridstead.domain.job import Job
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
    """Where the Job Definition service keeps rendered scripts."""

    def put(self, batch_location_hash: str, record: str) -> None:
        """Store a record under an id. Durable before it returns; the same id and record again changes nothing."""
        ...

    def get(self, batch_location_hash: str) -> str | None:
        """Return the record, None if there is none."""
        ...


class Modules(Protocol):
    """Where modules of workflows come from."""

    def text(self, source: ModuleSource) -> str:
        """Return a module's text, within bounds of time and size; what a tag or a branch names may be a while old.

        Raises:
            InvalidInput: There is none, it is too large, or its host is not allowed; asking again is pointless.
            ModuleUnavailable: Its host did not answer, or not in time.
        """
        ...
