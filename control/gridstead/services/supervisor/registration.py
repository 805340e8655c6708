# SPDX-License-Identifier: Apache-2.0
"""Registers a provider again when its hardware, prices or labels change."""

from __future__ import annotations

import structlog

from gridstead.domain.supervisor.offers import Terms, must_register, offer
from gridstead.domain.transactions.calls import outbox_key
from gridstead.ports import Ledger, Outbox, Scheduler

log = structlog.get_logger()


class Registration:
    """Registers one provider if its records on the chain differ from its current offer.

    A provider has up to two records: an active one, and one that waits for approval.
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
        """Request a registration if neither record equals the current offer.

        Later, an administrator of the grid approves the registration.
        """
        current_offer = offer(self._scheduler.hardware(), self._terms)
        head = self._ledger.head()
        active_provider = self._ledger.providers([self._provider], at_block=head).get(
            self._provider
        )
        waiting_provider = self._ledger.waiting_provider(self._provider, at_block=head)
        if must_register(current_offer, active_provider, waiting_provider):
            self._outbox.put(outbox_key(current_offer), current_offer)
            log.info("registration_requested", nodes=current_offer.hardware.node_count)
