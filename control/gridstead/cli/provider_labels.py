# SPDX-License-Identifier: Apache-2.0
"""The labels of providers, with their units and how far their values can be trusted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated

import typer

from gridstead.cli.client import GridClient
from gridstead.cli.output import emit_table
from gridstead.domain.benchmarks.trust import NOT_VERIFIED, LabelTrust, Trust, judge, report_url
from gridstead.domain.jobs.job import Provider
from gridstead.domain.labels.keys import BENCHMARK_SUITE, unit_of
from gridstead.errors import GridsteadError

UNKNOWN_UNIT = "unknown"
_DOWNLOADS_AT_ONCE = 8

Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Download the signed reports of the benchmarks from the URLs that the providers name,"
        " and show which measured values they contain. Without this option all values are claimed.",
    ),
]
AllowPrivate = Annotated[
    bool,
    typer.Option(
        "--allow-private",
        help="Download reports also from addresses that are not public, such as those of your own"
        " network. Only with --verify.",
    ),
]
Judgements = Mapping[str, Mapping[str, LabelTrust]]  # by the provider's address and the key


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Whether reports are downloaded, and from where.

    Attributes:
        is_wanted: Whether they are downloaded.
        allow_private: Whether addresses that are not public are permitted.
    """

    is_wanted: bool
    allow_private: bool


def judge_all(
    client: GridClient, providers: Sequence[Provider], verification: Verification
) -> Judgements:
    """Return how far the values of the labels of some providers can be trusted."""
    from gridstead.adapters.chain.wallet import recover  # noqa: PLC0415 - slow import

    def judge_one(provider: Provider) -> Mapping[str, LabelTrust]:
        return judge(
            provider,
            _report(client, provider, verification),
            chain_id=client.settings.chain.chain_id,
            now=int(time.time()),
            recover=recover,
        )

    with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
        judgements = pool.map(judge_one, providers)
        return {
            provider.address: judgement
            for provider, judgement in zip(providers, judgements, strict=True)
        }


def _report(client: GridClient, provider: Provider, verification: Verification) -> bytes | str:
    """Return the file with the report of a provider, or the reason why there is none."""
    url = report_url(provider)
    if url is None or not verification.is_wanted:
        return NOT_VERIFIED
    from gridstead.adapters.benchmarks.download import download_report  # noqa: PLC0415 - slow

    try:
        return download_report(
            url, ca=client.settings.ca_file, allow_private=verification.allow_private
        )
    except GridsteadError as error:  # it is the reason why the values are only claimed
        return str(error)


def labels_to_json(
    provider: Provider, judgement: Mapping[str, LabelTrust]
) -> dict[str, dict[str, str | None]]:
    """Return the unit and the trust of each label that has a fixed meaning, by key."""
    return {
        key: {"unit": _unit(provider, key) or None, "trust": trust.trust, "reason": trust.reason}
        for key, trust in judgement.items()
    }


def print_labels(provider: Provider, judgement: Mapping[str, LabelTrust]) -> None:
    """Print the labels of a provider as a table, and why values are only claimed."""
    rows = []
    for label in provider.labels:
        trust = judgement.get(label.key)
        words = "" if trust is None else _words(trust)
        rows.append((label.key, label.value, _unit(provider, label.key), words))
    emit_table(("LABEL", "VALUE", "UNIT", "TRUST"), rows)


def summary(judgement: Mapping[str, LabelTrust]) -> str:
    """Return how many values are self-measured, and of how many, such as ``12 of 14``."""
    measured = [each for each in judgement.values() if each.trust is Trust.SELF_MEASURED]
    return f"{len(measured)} of {len(judgement)}"


def _words(trust: LabelTrust) -> str:
    return f"{trust.trust}: {trust.reason}" if trust.reason else trust.trust.value


def _unit(provider: Provider, key: str) -> str:
    unit = unit_of(key)
    is_known = any(label.key == BENCHMARK_SUITE for label in provider.labels)
    return unit if is_known or not unit else UNKNOWN_UNIT
