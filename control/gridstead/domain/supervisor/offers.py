# SPDX-License-Identifier: Apache-2.0
"""The offer that a provider registers, and the check whether it must register again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware, Provider
from gridstead.domain.labels.keys import (
    BENCHMARK_REPORT,
    BENCHMARK_REPORT_URL,
    BENCHMARK_SUITE,
    STANDARD_KEYS,
    provider_labels,
)
from gridstead.domain.labels.values import MAX_LABELS
from gridstead.domain.transactions.calls import Register
from gridstead.errors import InvalidInput

NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The operator's prices, and the operator's labels: the value of each label by its key."""

    prices: Prices
    labels: Mapping[str, str]


def offer(hardware: Hardware, terms: Terms, measured: Mapping[str, str] = NO_LABELS) -> Register:
    """Return the registration of this hardware on these terms.

    The labels in the registration have the form of the grid and are sorted by key.

    Args:
        hardware: The nodes.
        terms: The operator's prices and labels.
        measured: The values of the labels from benchmarks, by their keys. They replace the
            operator's labels with the same keys.

    Raises:
        InvalidInput: If a label is not permitted, or if there are too many labels.
    """
    own_labels = {label.key: label.value for label in provider_labels(terms.labels)}
    values = {**own_labels, **measured}
    if len(values) > MAX_LABELS:
        raise InvalidInput(
            f"the provider has {len(values)} labels, at most {MAX_LABELS}",
            detail=f"{len(measured)} are from benchmarks, {len(own_labels)} from the settings",
            hint=f"Remove {len(values) - MAX_LABELS} of the labels in the supervisor's settings.",
        )
    labels = provider_labels(values)
    return Register(hardware=hardware, prices=terms.prices, labels=labels)


def measured_labels(record: Provider | None, terms: Terms) -> Mapping[str, str]:
    """Return the labels of a record that come from benchmarks, by their keys.

    These are the labels with a key of a fixed meaning that are not labels of the operator, if the
    record names the benchmarks.

    Args:
        record: A record of the provider on the chain. None if there is none.
        terms: The operator's labels.
    """
    labels = {label.key: label.value for label in record.labels} if record else {}
    if BENCHMARK_SUITE not in labels:
        return {}
    measured = {key: value for key, value in labels.items() if key in STANDARD_KEYS}
    return without_own_labels(measured, terms)


def without_own_labels(labels: Mapping[str, str], terms: Terms) -> Mapping[str, str]:
    """Return the labels that the operator does not have with the same values."""
    own_labels = {label.key: label.value for label in provider_labels(terms.labels)}
    return {key: value for key, value in labels.items() if own_labels.get(key) != value}


def without_report(measured: Mapping[str, str]) -> dict[str, str]:
    """Return labels from benchmarks without those that name the published report."""
    report_keys = (BENCHMARK_REPORT, BENCHMARK_REPORT_URL)
    return {key: measured[key] for key in measured if key not in report_keys}


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
