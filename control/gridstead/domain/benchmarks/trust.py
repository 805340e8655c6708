# SPDX-License-Identifier: Apache-2.0
"""Decides how far a client can trust the measured values in the labels of a provider.

A value is *self-measured* if a report that the provider signed contains it, and the benchmarks are
at most 90 days old. Otherwise it is *claimed*. Nobody but the provider has measured either.

The signature shows that the holder of the wallet stands by the report: if the provider delivers
less, the report is the evidence. It does not show that the provider measured what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gridstead.domain.benchmarks.public_report import FORMAT, digest, read_file
from gridstead.domain.jobs.job import Provider
from gridstead.domain.labels.benchmark_age import age_s, benchmark_time
from gridstead.domain.labels.keys import (
    BENCHMARK_REPORT,
    BENCHMARK_REPORT_URL,
    BENCHMARK_TIME,
    STANDARD_KEYS,
)
from gridstead.errors import InvalidInput

MAX_AGE_DAYS = 90
_SECONDS_PER_DAY = 24 * 3600
_ABOUT_REPORT = frozenset({BENCHMARK_REPORT, BENCHMARK_REPORT_URL})
NO_REPORT = "the provider publishes no report"
NOT_VERIFIED = "the report was not verified"
OTHER_VALUE = "the report has another value"
NO_VALUE = "the report has no such value"


class Trust(StrEnum):
    """How far a value can be trusted."""

    SELF_MEASURED = "self-measured"
    CLAIMED = "claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTrust:
    """How far the value of one label can be trusted.

    Attributes:
        trust: How far.
        reason: Why the value is only claimed. Empty if it is self-measured.
    """

    trust: Trust
    reason: str = ""


def report_url(provider: Provider) -> str | None:
    """Return where the report of a provider is. None if it publishes no report."""
    labels = {label.key: label.value for label in provider.labels}
    return labels.get(BENCHMARK_REPORT_URL) if labels.get(BENCHMARK_REPORT) else None


def judge(
    provider: Provider,
    file: bytes | str,
    *,
    chain_id: int,
    now: int,
    recover: Callable[[bytes, bytes], str],
) -> dict[str, LabelTrust]:
    """Return how far the values of the labels with standard keys can be trusted, by key.

    Args:
        provider: The provider.
        file: The file at the URL of its report, or the reason why there is none.
        chain_id: The chain of the provider.
        now: Unix seconds.
        recover: Returns the address that signed a text, from the text and the signature. Raises
            InvalidInput for a malformed signature.
    """
    labels = {label.key: label.value for label in provider.labels}
    keys = [key for key in labels if key in STANDARD_KEYS and key not in _ABOUT_REPORT]
    try:
        reported = _reported_values(
            provider, file, labels, chain_id=chain_id, now=now, recover=recover
        )
    except InvalidInput as error:
        return dict.fromkeys(keys, LabelTrust(trust=Trust.CLAIMED, reason=error.message))
    return {key: _compare(labels[key], reported.get(key)) for key in keys}


def _compare(value: str, reported: str | None) -> LabelTrust:
    if value == reported:
        return LabelTrust(trust=Trust.SELF_MEASURED)
    reason = NO_VALUE if reported is None else OTHER_VALUE
    return LabelTrust(trust=Trust.CLAIMED, reason=reason)


def _reported_values(
    provider: Provider,
    file: bytes | str,
    labels: Mapping[str, str],
    *,
    chain_id: int,
    now: int,
    recover: Callable[[bytes, bytes], str],
) -> Mapping[str, str]:
    """Return the labels in a valid report. Raises InvalidInput, with the reason, if it is not."""
    if report_url(provider) is None:
        raise InvalidInput(NO_REPORT)
    if isinstance(file, str):
        raise InvalidInput(file)
    if digest(file) != labels[BENCHMARK_REPORT]:
        raise InvalidInput(f"the hash of the report is not that of the label {BENCHMARK_REPORT}")
    report = read_file(file)
    if report.format != FORMAT:
        raise InvalidInput(f"the report has the unknown format {report.format[:80]}")
    if recover(report.text, report.signature) != provider.address:
        raise InvalidInput("the report is not signed by the provider's wallet")
    if (report.provider, report.chain_id) != (provider.address, str(chain_id)):
        raise InvalidInput("the report is about another provider or another chain")
    if report.labels.get(BENCHMARK_TIME) != labels.get(BENCHMARK_TIME):
        raise InvalidInput(f"the report is not about the run of the label {BENCHMARK_TIME}")
    age = age_s(benchmark_time(provider.labels), now=now)
    if age is None:
        raise InvalidInput(f"the label {BENCHMARK_TIME} is missing or no valid time")
    if age > MAX_AGE_DAYS * _SECONDS_PER_DAY:
        raise InvalidInput(f"the benchmarks are older than {MAX_AGE_DAYS} days")
    return report.labels
