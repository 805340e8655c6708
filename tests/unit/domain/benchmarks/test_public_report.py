# SPDX-License-Identifier: Apache-2.0
"""Tests of the public report of a run."""

import hashlib
import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.benchmarks import COMPUTE, LATENCY, report
from tests.unit.domain.builders import PROVIDER

from gridstead.domain.benchmarks.public_report import (
    FORMAT,
    digest,
    read_file,
    report_text,
    signed_file,
)
from gridstead.domain.benchmarks.site import Findings, Measurement, Omission, PairMeasurement
from gridstead.domain.jobs.job import Label
from gridstead.errors import InvalidInput

SIGNATURE = bytes(range(65))


def text_of(a_report):
    return report_text(a_report, chain_id=179188, provider=PROVIDER)


def file_of(a_report):
    return signed_file(text_of(a_report), lambda _text: SIGNATURE)


def test_report_has_the_labels_and_the_figures_of_the_run_with_numbers_for_nodes():
    text = text_of(report(1_000, speeds={"n2": "6.25", "n1": "0.0000012"}))

    assert json.loads(text) == {
        "chain_id": "179188",
        "ended_at": "1000",
        "format": FORMAT,
        "labels": {
            "benchmark.suite": "gridstead-1-lab",
            "benchmark.time": "1000",
            "compute.gflops": "12.50",
        },
        "measurements": [
            {
                "lower_is_better": False,
                "metric": "compute",
                "unit": "Gflop/s",
                "values": {"1": "0.0000012", "2": "6.25"},
            }
        ],
        "mode": "lab",
        "nodes": ["1", "2"],
        "omissions": ["gpu"],
        "pairs": [
            {
                "lower_is_better": True,
                "metric": "latency",
                "unit": "us",
                "values": {"1-2": "1.5"},
            }
        ],
        "provider": PROVIDER,
        "started_at": "940",
        "suite": "gridstead-1-lab",
    }


def test_text_is_sorted_json_without_whitespace():
    text = text_of(report(1_000))

    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).encode()
    assert b" " not in text


def test_labels_have_the_form_of_the_grid():
    findings = Findings(labels=[Label(key="cpu", value="AMD EPYC (tm)")])

    text = text_of(replace(report(1_000), findings=findings))

    assert json.loads(text)["labels"]["cpu"] == "amd-epyc-tm"


NAMES = st.from_regex(r"secret-[g-z]{3,8}", fullmatch=True)


@given(names=st.lists(NAMES, min_size=2, max_size=6, unique=True))
def test_no_name_of_a_host_is_in_the_file(names):
    """A node that did not accept jobs is not one of the nodes of the run."""
    *nodes, drained_node = names
    findings = Findings(
        measurements=[
            Measurement(node=node, metric=COMPUTE, value=Decimal("1.5")) for node in names
        ],
        omissions=[Omission(keys="gpu", reason=f"{nodes[0]}: /home/secret: no such file")],
        pairs=[PairMeasurement(nodes=(nodes[0], drained_node), metric=LATENCY, value=Decimal(2))],
    )

    file = file_of(replace(report(1_000), nodes=tuple(nodes), findings=findings))

    assert b"secret" not in file
    (measurement,) = json.loads(file)["report"]["measurements"]
    assert measurement["values"].keys() == {str(number + 1) for number in range(len(names))}


def test_file_with_the_same_report_has_the_same_bytes():
    first, second = file_of(report(1_000)), file_of(report(1_000))

    assert first == second
    assert digest(first) == hashlib.sha256(first).hexdigest()
    assert digest(first) != digest(file_of(report(1_001)))


def test_signed_text_is_read_from_the_file():
    public_report = read_file(file_of(report(1_000)))

    assert public_report.text == text_of(report(1_000))
    assert public_report.signature == SIGNATURE
    assert (public_report.format, public_report.chain_id) == (FORMAT, "179188")
    assert public_report.provider == PROVIDER
    assert public_report.labels["compute.gflops"] == "12.50"


def damaged(change):
    document = json.loads(file_of(report(1_000)))
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xff",
        b"[" * 100_000,
        damaged(lambda document: document.pop("report")),
        damaged(lambda document: document.update(signature="0x00")),
        damaged(lambda document: document.update(signature=1)),
        damaged(lambda document: document["report"].update(labels=[])),
    ],
)
def test_another_file_is_refused(file):
    with pytest.raises(InvalidInput, match="the file is not a report of benchmarks"):
        read_file(file)
