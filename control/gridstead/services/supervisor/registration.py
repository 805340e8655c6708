# SPDX-License-Identifier: Apache-2.0
"""Registers a provider again when its hardware, prices or labels change.

The labels are those of the operator and those that the benchmarks measured. Each registration needs
an approval, so the labels of the benchmarks change rarely (``domain/benchmarks/publication.py``).
"""

from __future__ import annotations

import structlog

from gridstead.domain.supervisor.offers import Terms, measured_labels, must_register, offer
from gridstead.domain.transactions.calls import outbox_key
from gridstead.ports import Ledger, Outbox, Scheduler
from gridstead.services.supervisor.measured_labels import MeasuredLabels

log = structlog.get_logger()


class Registration:
    """Registers one provider if its records on the chain differ from its current offer.

    A provider has up to two records: an active one, and one that waits for approval.

    Args:
        ledger: The chain.
        outbox: The calls of the provider's wallet.
        scheduler: Slurm.
        benchmarks: The labels of the benchmarks. None if the site cannot read them.
        provider: The address of the provider.
        terms: The operator's prices and labels.
    """

    def __init__(
        self,
        ledger: Ledger,
        outbox: Outbox,
        scheduler: Scheduler,
        *,
        benchmarks: MeasuredLabels | None = None,
        provider: str,
        terms: Terms,
    ) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._scheduler = scheduler
        self._benchmarks = benchmarks
        self._provider = provider
        self._terms = terms

    def tick(self) -> None:
        """Request a registration if neither record equals the current offer.

        Later, an administrator of the grid approves the registration.
        """
        hardware = self._scheduler.hardware()
        head = self._ledger.head()
        active_provider = self._ledger.providers([self._provider], at_block=head).get(
            self._provider
        )
        waiting_provider = self._ledger.waiting_provider(self._provider, at_block=head)
        newest_record = waiting_provider or active_provider
        measured = measured_labels(newest_record, self._terms)
        if self._benchmarks is not None:
            if newest_record is None and self._benchmarks.are_awaited():
                return
            measured = self._benchmarks.to_offer(
                measured, self._terms, active=active_provider, now=head.timestamp
            )
        current_offer = offer(hardware, self._terms, measured)
        if must_register(current_offer, active_provider, waiting_provider):
            self._outbox.put(outbox_key(current_offer), current_offer)
            log.info("registration_requested", nodes=current_offer.hardware.node_count)
