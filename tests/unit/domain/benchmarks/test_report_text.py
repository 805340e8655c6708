# SPDX-License-Identifier: Apache-2.0
"""Tests of the text of a report."""

import json
from decimal import Decimal

import pytest
from tests.fakes.benchmarks import COMPUTE, report

from gridstead.domain.benchmarks.outliers import SlowNode
from gridstead.domain.benchmarks.report import Drain
from gridstead.domain.benchmarks.report_text import parse_report, report_text
from gridstead.domain.benchmarks.selection import Selection
from gridstead.errors import UnexpectedOutput

REPORT = report(1_000)


def document():
    return json.loads(report_text(REPORT))


def parse(changed_document):
    return parse_report(json.dumps(changed_document), source="report r")


def test_a_report_is_read_as_it_was_written():
    assert parse_report(report_text(REPORT), source="report r") == REPORT


def test_a_report_of_a_part_of_the_site_with_slow_nodes_is_read_as_it_was_written():
    slow = SlowNode(
        node="n1",
        metric=COMPUTE,
        value=Decimal(50),
        reference=Decimal(99),
        percent_slower=Decimal(4900) / 99,
        runs=2,
        sentence="n1 is slow",
    )
    changed = report(
        1_000,
        partial=Selection(nodes=("n1",)),
        slow_nodes=(slow,),
        drains=(Drain(node="n1", failure="permission denied"),),
    )

    assert parse_report(report_text(changed), source="report r") == changed


def test_the_text_has_plain_decimals_and_the_direction_of_each_metric():
    assert document()["measurements"][0] == {
        "node": "n1",
        "metric": "compute",
        "unit": "Gflop/s",
        "kind": "compute",
        "lower_is_better": False,
        "value": "0.0000012",
    }
    (pair,) = document()["pairs"]
    assert pair["nodes"] == ["n1", "n2"]
    assert pair["lower_is_better"] is True


def test_a_report_without_newer_keys_and_with_unknown_keys_is_read():
    older = document() | {"colour": "red"}
    newer_keys = ("pairs", "hardware", "partial", "outliers", "drains", "diagnostics", "transport")
    for key in newer_keys:
        del older[key]

    assert parse(older).findings.pairs == []
    assert parse(older).findings.diagnostics == []
    assert parse(older).findings.transport == ""
    assert parse(older).findings.measurements == REPORT.findings.measurements


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other"}', '"text"', "null"])
def test_a_text_that_is_not_a_report_is_an_error_with_its_source(text):
    with pytest.raises(UnexpectedOutput, match="output of report r"):
        parse_report(text, source="report r")


@pytest.mark.parametrize("value", ["0", "-1.5", "1e3", "nan", "fast"])
def test_a_value_that_is_not_a_number_above_0_is_an_error(value):
    damaged = document()
    damaged["measurements"][0]["value"] = value

    with pytest.raises(UnexpectedOutput):
        parse(damaged)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("labels", {"compute.gflops": "1"}),  # no benchmark.suite
        ("mode", "slow"),
        ("ended_at", "later"),
        ("ended_at", None),
        ("pairs", [{"nodes": ["n1"]}]),
    ],
)
def test_an_invalid_value_is_an_error(key, value):
    with pytest.raises(UnexpectedOutput):
        parse(document() | {key: value})
