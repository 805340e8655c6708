# SPDX-License-Identifier: Apache-2.0
"""Tests of the age of benchmarks."""

import pytest

from gridstead.domain.jobs.job import Label
from gridstead.domain.labels.benchmark_age import MAX_AHEAD_S, age_s, benchmark_time

NOW = 1_800_000_000


def labels(value, key="benchmark.time"):
    return [Label(key="arch", value="amd64"), Label(key=key, value=value)]


def test_time_is_the_value_of_its_label():
    assert benchmark_time(labels("1795888364")) == 1_795_888_364


@pytest.mark.parametrize("value", ["", "-1", "1.5", "1e9", "+1", " 1", "9" * 19, "٣"])
def test_other_values_are_no_time(value):
    assert benchmark_time(labels(value)) is None


def test_provider_without_the_label_has_no_time():
    assert benchmark_time(labels("1795888364", key="benchmark.age.h")) is None


@pytest.mark.parametrize(
    ("measured_at", "age"),
    [
        (NOW - 5000, 5000),
        (NOW, 0),
        (NOW + MAX_AHEAD_S, 0),
        (NOW + MAX_AHEAD_S + 1, None),
        (None, None),
    ],
)
def test_time_in_the_future_has_an_age_only_if_it_is_near(measured_at, age):
    assert age_s(measured_at, now=NOW) == age
