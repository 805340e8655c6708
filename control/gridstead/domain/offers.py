# SPDX-License-Identifier: Apache-2.0
"""What a provider offers, and when it must say so again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gridstead.domain.billing import Prices
from gridstead.domain.calls import Register
from gridstead.domain.job import Hardware, Label, Provider

_WORDS = re.compile(r"[A-Za-z0-9._](?:[A-Za-z0-9._-]*[A-Za-z0-9._])?")


def sanitise(text: str) -> str:
    """Return a label's text as the grid writes it: runs of letters, digits, ``.`` and ``_``, joined
    by ``-``.
    """
    return "-".join(_WORDS.findall(text)).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the operator asks and says: prices, and labels by key."""

    prices: Prices
    labels: Mapping[str, str]


def offer(hardware: Hardware, terms: Terms) -> Register:
    """Return the registration of this hardware on these terms; labels are sanitised and sorted by
    key.
    """
    cleaned = {sanitise(key): sanitise(value) for key, value in terms.labels.items()}
    ordered = tuple(Label(key=key, value=value) for key, value in sorted(cleaned.items()))
    return Register(hardware=hardware, prices=terms.prices, labels=ordered)


def must_register(wanted: Register, current: Provider | None, waiting: Provider | None) -> bool:
    """Return whether neither the active nor the waiting record says what we offer."""
    return not any(
        record is not None
        and (record.hardware, record.prices, record.labels)
        == (wanted.hardware, wanted.prices, wanted.labels)
        for record in (current, waiting)
    )
