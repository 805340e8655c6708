# SPDX-License-Identifier: Apache-2.0
"""Logs which providers rest because of their faults (``domain/matching/reputation.py``)."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from gridstead.domain.jobs.billing import PERCENT
from gridstead.domain.matching.reputation import MILLION, Standing

log = structlog.get_logger()


class RestLog:
    """Logs when the rest of a provider starts and ends."""

    def __init__(self) -> None:
        self._resting: frozenset[str] = frozenset()

    def update(self, standings: Mapping[str, Standing]) -> None:
        """Log the changes since the last call.

        Args:
            standings: The standings of the providers with faults, by address.
        """
        resting = set()
        for provider, standing in standings.items():
            if standing.job_limit is not None:
                resting.add(provider)
        for provider in sorted(resting - self._resting):
            percent = standings[provider].faults * PERCENT // MILLION
            log.warning("provider_rested", provider=provider, reason=f"{percent} % faults")
        for provider in sorted(self._resting - resting):
            log.info("provider_rest_ended", provider=provider)
        self._resting = frozenset(resting)
