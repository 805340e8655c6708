# SPDX-License-Identifier: Apache-2.0
"""Tests of the metrics of a service: counted calls and gauges."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gridstead.errors import LimitExceeded, Transient
from gridstead.rpc.metrics import Gauge, Metrics


def samples_of(metrics):
    """Return the samples by name and label values, as prometheus_client parses them."""
    families = text_string_to_metric_families(metrics.text())
    samples = {}
    for family in families:
        for sample in family.samples:
            samples[sample.name, *sample.labels.values()] = sample.value
    return samples


def test_outcomes_are_counted():
    metrics = Metrics({})

    def fail(error):
        raise error

    metrics.counted("call", lambda: 1)()
    for error in (LimitExceeded("x"), LimitExceeded("x"), KeyError("x")):
        with pytest.raises(type(error)):
            metrics.counted("call", fail)(error)

    samples = samples_of(metrics)
    assert samples["gridstead_calls_total", "call", "ok"] == 1
    assert samples["gridstead_calls_total", "call", "too-much"] == 2
    assert samples["gridstead_calls_total", "call", "bug"] == 1
    assert samples["gridstead_call_seconds_total", "call"] > 0


def test_gauges_are_read_at_each_request():
    scripts, revisions = [], {"a.example.org": 7, "b.example.org": 8}
    metrics = Metrics(
        {
            "gridstead_scripts": Gauge("Scripts that are stored.", lambda: len(scripts)),
            "gridstead_cvmfs_revision": Gauge("Revision.", lambda: revisions, "repository"),
        }
    )
    scripts.append("one")

    assert samples_of(metrics) == {
        ("gridstead_scripts",): 1,
        ("gridstead_cvmfs_revision", "a.example.org"): 7,
        ("gridstead_cvmfs_revision", "b.example.org"): 8,
    }


def test_failing_gauge_raises_its_error():
    def fail():
        raise Transient("could not reach the state store")

    with pytest.raises(Transient):
        Metrics({"a": Gauge("b", fail)}).text()
