# SPDX-License-Identifier: Apache-2.0
"""The offer that a provider registers, and the check whether it must register again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware, Label, Provider
from gridstead.domain.transactions.calls import Register

_LABEL_PARTS = re.compile(r"[A-Za-z0-9._](?:[A-Za-z0-9._-]*[A-Za-z0-9._])?")


def sanitise_label(text: str) -> str:
    """Return the text of a label in the form that the grid uses.

    The text is split at all characters except a to z, A to Z, 0 to 9, ``.``, ``_`` and ``-``.
    Leading and trailing ``-`` of each part are removed. The parts are joined by ``-``, in lower
    case.
    """
    return "-".join(_LABEL_PARTS.findall(text)).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The operator's prices, and the operator's labels: the value of each label by its key."""

    prices: Prices
    labels: Mapping[str, str]


def offer(hardware: Hardware, terms: Terms) -> Register:
    """Return the registration of this hardware on these terms.

    The labels in the registration are sanitised and sorted by key.
    """
    values = {sanitise_label(key): sanitise_label(value) for key, value in terms.labels.items()}
    labels = tuple(Label(key=key, value=value) for key, value in sorted(values.items()))
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
