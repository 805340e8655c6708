# SPDX-License-Identifier: Apache-2.0
"""The offer that a provider registers, and the check whether it must register again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware, Provider
from gridstead.domain.labels.keys import provider_labels
from gridstead.domain.transactions.calls import Register


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The operator's prices, and the operator's labels: the value of each label by its key."""

    prices: Prices
    labels: Mapping[str, str]


def offer(hardware: Hardware, terms: Terms) -> Register:
    """Return the registration of this hardware on these terms.

    The labels in the registration have the form of the grid and are sorted by key.

    Raises:
        InvalidInput: If a label is not permitted.
    """
    labels = provider_labels(terms.labels)
    return Register(hardware=hardware, prices=terms.prices, labels=labels)


def must_register(offered: Register, current: Provider | None, waiting: Provider | None) -> bool:
    """Return whether the provider must register its offer.

    Args:
        offered: The current offer of the provider.
        current: The provider's active record on the chain. None if no record is active.
        waiting: The provider's record that waits for approval. None if no record waits.

    Returns:
        False if ``current`` or ``waiting`` equals the offer, otherwise True.
    """
    offered_values = (offered.hardware, offered.prices, offered.labels)
    for record in (current, waiting):
        if record is None:
            continue
        if (record.hardware, record.prices, record.labels) == offered_values:
            return False
    return True
