# SPDX-License-Identifier: Apache-2.0
"""Tests of the keys with a fixed meaning, and of the labels of a provider."""

import pytest

from gridstead.domain.labels.keys import (
    DEEPSQUARE_KEYS,
    STANDARD_KEYS,
    provider_labels,
    unit_of,
)
from gridstead.domain.labels.reserved import RESERVED_KEYS
from gridstead.domain.labels.values import label_key
from gridstead.errors import InvalidInput


def pairs(labels):
    return [(label.key, label.value) for label in provider_labels(labels)]


def test_there_are_31_keys_of_deepsquare():
    assert len({standard.key for standard in DEEPSQUARE_KEYS}) == 31


def test_no_reserved_key_is_a_standard_key():
    assert not RESERVED_KEYS & STANDARD_KEYS.keys()


def test_standard_keys_have_the_form_of_the_grid():
    assert [label_key(key) for key in STANDARD_KEYS] == list(STANDARD_KEYS)


@pytest.mark.parametrize(
    ("key", "unit"),
    [
        ("compute.gflops", "Gflop/s"),
        ("storage.scratch.read.bw.mibps", "MiB/s"),
        ("network.p2p.latency.us", "microseconds"),
        ("cpu", ""),
        ("zone", ""),
    ],
)
def test_unit_of_a_key_is_short(key, unit):
    assert unit_of(key) == unit


def test_labels_have_the_form_of_the_grid_and_are_sorted_by_key():
    assert pairs({"Zone": "Lab!", "arch": "amd64", "cpu": "AMD EPYC (tm) 7B13"}) == [
        ("arch", "amd64"), ("cpu", "amd-epyc-tm-7b13"), ("zone", "lab"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("compute.gflops", "1234.50"),
        ("storage.scratch.read.iops", "0"),
        ("benchmark.time", "1795888364"),
        ("benchmark.suite", "hpcc-1.5.0"),
        ("benchmark.report", "0f" * 32),
        ("benchmark.report.url", "https://provider.test/Reports?id=1"),
    ],
)
def test_value_in_the_form_of_its_key_is_unchanged(key, value):
    assert pairs({key: value}) == [(key, value)]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("compute.gflops", "fast", "must be a number of at least 0 in Gflop/s"),
        ("compute.gflops", "1e+06", "must be a number of at least 0 in Gflop/s"),
        ("compute.gflops", "-1", "must be a number of at least 0 in Gflop/s"),
        ("benchmark.time", "1795888364.5", "must be an integer of at least 0 in Unix seconds"),
        ("benchmark.report", "0F" * 32, "must be 64 hexadecimal digits"),
        ("benchmark.report.url", "http://provider.test/", "must be a URL that starts with https"),
        ("benchmark.report.url", "https://provider.test/a b", "must be a URL"),
        ("benchmark.report.url", "https://provider.test/" + "a" * 43, "65 bytes, at most 64"),
        ("gpus", "1e+06", "must be a plain decimal"),
        ("Policy", "soonest", "must not have the key 'Policy'"),
        ("!", "x", "invalid key"),
    ],
)
def test_label_that_is_not_permitted_is_refused(key, value, reason):
    with pytest.raises(InvalidInput, match=reason):
        provider_labels({key: value})


def test_two_keys_that_are_the_same_in_the_form_of_the_grid_are_refused():
    with pytest.raises(InvalidInput, match="two labels have the key zone"):
        provider_labels({"zone": "a", "Zone": "b"})


def test_more_than_64_labels_are_refused():
    labels = {f"key{number}": "x" for number in range(65)}

    with pytest.raises(InvalidInput, match="there are 65, at most 64"):
        provider_labels(labels)
    labels.popitem()
    assert len(provider_labels(labels)) == 64
