# SPDX-License-Identifier: Apache-2.0
"""The rendered scripts of jobs."""

from __future__ import annotations

from typing import Protocol

from gridstead.domain.job import Job
from gridstead.domain.submission import Script


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
