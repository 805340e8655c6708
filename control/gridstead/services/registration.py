# SPDX-License-Identifier: Apache-2.0
"""Registration: the chain's record of a provider follows its cluster, its prices and its labels."""

from __future__ import annotations

import structlog

from gridstead.domain.offers import Terms, must_register, offer
from gridstead.ports import Ledger, Outbox, Scheduler

log = structlog.get_logger()


class Registration:
    """Registers one provider whenever neither its active nor its waiting record says what it
    offers.
    """

    def __init__(
        self, ledger: Ledger, outbox: Outbox, scheduler: Scheduler, *, provider: str, terms: Terms
    ) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._scheduler = scheduler
        self._provider = provider
        self._terms = terms

    def tick(self) -> None:
        """Compare and register if needed; an administrator of the grid approves it."""
        wanted = offer(self._scheduler.hardware(), self._terms)
        head = self._ledger.head()
        current = self._ledger.providers([self._provider], at_block=head).get(self._provider)
        waiting = self._ledger.waiting_provider(self._provider, at_block=head)
        if must_register(wanted, current, waiting):
            self._outbox.put("register", wanted)
            log.info("registration_requested", nodes=wanted.hardware.nodes)
