# SPDX-License-Identifier: Apache-2.0
"""Tests of the decision how far the values of labels can be trusted."""

import json
from dataclasses import replace

import pytest
from tests.fakes.benchmarks import report
from tests.unit.domain.builders import OTHER_ADDRESS, PROVIDER

from gridstead.domain.benchmarks.public_report import digest, report_text, signed_file
from gridstead.domain.benchmarks.trust import (
    MAX_AGE_DAYS,
    NO_REPORT,
    NO_VALUE,
    OTHER_VALUE,
    Trust,
    judge,
    report_url,
)
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware, Label, Provider
from gridstead.errors import InvalidInput

CHAIN_ID = 179188
MEASURED_AT = 1_800_000_000
DAY_S = 24 * 3600
URL = "https://provider.test/benchmark-report.json"
SIGNATURE = bytes(65)
RUN = {
    "benchmark.suite": "gridstead-1-lab",
    "benchmark.time": str(MEASURED_AT),
    "compute.gflops": "12.50",
}


def file_of(chain_id=CHAIN_ID, provider=PROVIDER):
    text = report_text(report(MEASURED_AT), chain_id=chain_id, provider=provider)
    return signed_file(text, lambda _text: SIGNATURE)


def provider_of(file, **labels):
    """Return a provider that publishes the run and the hash of this file."""
    values = RUN | {"benchmark.report": digest(file), "benchmark.report.url": URL}
    values |= {key.replace("_", "."): value for key, value in labels.items()}
    return Provider(
        address=PROVIDER,
        hardware=Hardware(gpus_per_node=(0,), cpus_per_node=(4,), memory_per_node_mb=(1000,)),
        prices=Prices(gpu_per_min=1, cpu_per_min=2, memory_mb_per_min=3),
        labels=tuple(Label(key=key, value=value) for key, value in sorted(values.items())),
        is_joined=True,
    )


def judged(provider, file, *, now=MEASURED_AT + DAY_S, signer=PROVIDER):
    """Return the reason of each label. It is empty for a value that is self-measured."""

    def recover(text, signature):
        assert text == report_text(report(MEASURED_AT), chain_id=CHAIN_ID, provider=PROVIDER)
        assert signature == SIGNATURE
        return signer

    results = judge(provider, file, chain_id=CHAIN_ID, now=now, recover=recover)
    for result in results.values():
        assert (result.trust is Trust.SELF_MEASURED) is (result.reason == "")
    return {key: result.reason for key, result in results.items()}


def test_values_in_a_valid_report_are_self_measured():
    file = file_of()

    assert judged(provider_of(file), file) == dict.fromkeys(RUN, "")


def test_labels_without_a_fixed_meaning_are_not_judged():
    file = file_of()

    assert "zone" not in judged(provider_of(file, zone="eu"), file)


def test_values_that_are_not_in_the_report_are_claimed():
    file = file_of()
    provider = provider_of(file, compute_gflops="99.00", gpu="h100")

    assert judged(provider, file) == {
        **dict.fromkeys(RUN, ""),
        "compute.gflops": OTHER_VALUE,
        "gpu": NO_VALUE,
    }


def claimed(reason):
    return dict.fromkeys(RUN, reason)


def test_reason_why_the_report_was_not_read_is_that_of_each_value():
    assert judged(provider_of(b""), "it did not answer") == claimed("it did not answer")


@pytest.mark.parametrize("key", ["benchmark.report", "benchmark.report.url"])
def test_provider_without_a_report_only_claims_its_values(key):
    file = file_of()
    provider = provider_of(file)
    labels = tuple(label for label in provider.labels if label.key != key)

    assert judged(replace(provider, labels=labels), file) == claimed(NO_REPORT)


def test_url_is_that_of_a_provider_with_a_report():
    provider = provider_of(file_of())

    assert report_url(provider) == URL
    assert report_url(replace(provider, labels=provider.labels[-2:])) is None


def test_file_with_another_hash_is_not_trusted():
    file = file_of()

    reason = "the hash of the report is not that of the label benchmark.report"
    assert judged(provider_of(file), file + b"\n") == claimed(reason)


def test_file_that_is_no_report_is_not_trusted():
    reason = "the file is not a report of benchmarks"

    assert judged(provider_of(b"{}"), b"{}") == claimed(reason)


def test_report_in_another_format_is_not_trusted():
    document = json.loads(file_of())
    document["report"]["format"] = "gridstead-benchmark-report-9"
    file = json.dumps(document).encode()

    reason = "the report has the unknown format gridstead-benchmark-report-9"
    assert judged(provider_of(file), file) == claimed(reason)


def test_report_that_another_wallet_signed_is_not_trusted():
    file = file_of()

    reason = "the report is not signed by the provider's wallet"
    assert judged(provider_of(file), file, signer=OTHER_ADDRESS) == claimed(reason)


@pytest.mark.parametrize("changes", [{"chain_id": 1}, {"provider": OTHER_ADDRESS}])
def test_report_about_another_provider_is_not_trusted(changes):
    file = file_of(**changes)
    results = judge(
        provider_of(file),
        file,
        chain_id=CHAIN_ID,
        now=MEASURED_AT,
        recover=lambda _text, _signature: PROVIDER,
    )

    reasons = {result.reason for result in results.values()}
    assert reasons == {"the report is about another provider or another chain"}


def test_malformed_signature_is_not_trusted():
    def recover(_text, _signature):
        raise InvalidInput("invalid signature")

    file = file_of()
    results = judge(provider_of(file), file, chain_id=CHAIN_ID, now=MEASURED_AT, recover=recover)

    assert {result.reason for result in results.values()} == {"invalid signature"}


def test_label_with_a_newer_time_than_the_report_is_not_trusted():
    file = file_of()
    provider = provider_of(file, benchmark_time=str(MEASURED_AT + DAY_S))

    reason = "the report is not about the run of the label benchmark.time"
    assert judged(provider, file) == claimed(reason)


def test_old_benchmarks_are_not_trusted():
    file = file_of()
    last_s = MEASURED_AT + MAX_AGE_DAYS * DAY_S

    assert judged(provider_of(file), file, now=last_s) == claimed("")
    reason = "the benchmarks are older than 90 days"
    assert judged(provider_of(file), file, now=last_s + 1) == claimed(reason)


def test_benchmarks_of_the_future_are_not_trusted():
    file = file_of()

    reason = "the label benchmark.time is missing or no valid time"
    assert judged(provider_of(file), file, now=MEASURED_AT - DAY_S) == claimed(reason)
