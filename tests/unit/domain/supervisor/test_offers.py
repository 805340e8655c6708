# SPDX-License-Identifier: Apache-2.0
"""Tests of a provider's offer: its labels, its hardware, and when it must be registered."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import PROVIDER

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware, Provider
from gridstead.domain.supervisor.offers import (
    Terms,
    measured_labels,
    must_register,
    offer,
    without_report,
)
from gridstead.errors import InvalidInput

HARDWARE = Hardware(gpus_per_node=(0,), cpus_per_node=(4,), memory_per_node_mb=(1000,))
PRICES = Prices(gpu_per_min=1, cpu_per_min=2, memory_mb_per_min=3)
TERMS = Terms(prices=PRICES, labels={"zone": "Lab!", "arch": "amd64"})


def test_labels_of_an_offer_are_sorted_by_key():
    labels = offer(HARDWARE, TERMS).labels

    assert [(label.key, label.value) for label in labels] == [("arch", "amd64"), ("zone", "lab")]


def test_provider_registers_unless_a_record_on_the_chain_equals_its_offer():
    our_offer = offer(HARDWARE, TERMS)
    equal_record = Provider(
        address=PROVIDER, hardware=HARDWARE, prices=PRICES, labels=our_offer.labels, is_joined=True
    )
    different_record = replace(equal_record, prices=replace(PRICES, cpu_per_min=9))

    assert must_register(our_offer, None, None)
    assert must_register(our_offer, different_record, None)
    assert not must_register(our_offer, equal_record, None)
    assert not must_register(our_offer, different_record, equal_record)


def test_measured_labels_replace_those_of_the_operator():
    labels = offer(HARDWARE, TERMS, {"arch": "x86_64", "compute.gflops": "12.50"}).labels

    assert [(label.key, label.value) for label in labels] == [
        ("arch", "x86_64"),
        ("compute.gflops", "12.50"),
        ("zone", "lab"),
    ]


def test_measured_labels_of_a_record_are_those_with_a_fixed_meaning_that_are_not_the_operators():
    measured = {"benchmark.suite": "gridstead-1-quick", "compute.gflops": "12.50"}
    labels = offer(HARDWARE, TERMS, measured).labels
    record = Provider(
        address=PROVIDER, hardware=HARDWARE, prices=PRICES, labels=labels, is_joined=True
    )

    assert measured_labels(record, TERMS) == measured


def test_a_record_without_a_suite_has_no_measured_labels():
    labels = offer(HARDWARE, TERMS, {"compute.gflops": "12.50"}).labels
    record = Provider(
        address=PROVIDER, hardware=HARDWARE, prices=PRICES, labels=labels, is_joined=True
    )

    assert measured_labels(record, TERMS) == {}
    assert measured_labels(None, TERMS) == {}


def test_too_many_labels_together_are_refused_with_their_numbers():
    own = {f"key{number}": "x" for number in range(63)}
    measured = {"benchmark.suite": "gridstead-1-quick", "key1": "12.50", "compute.gflops": "12.50"}

    with pytest.raises(InvalidInput, match="has 65 labels, at most 64") as caught:
        offer(HARDWARE, Terms(prices=PRICES, labels=own), measured)
    assert caught.value.detail == "3 are from benchmarks, 63 from the settings"
    assert caught.value.hint == "Remove 1 of the labels in the supervisor's settings."

    own.popitem()
    assert len(offer(HARDWARE, Terms(prices=PRICES, labels=own), measured).labels) == 64


def test_labels_without_the_report():
    report = {"benchmark.report": "0f" * 32, "benchmark.report.url": "https://provider.test/"}
    others = {"benchmark.time": "1000", "compute.gflops": "12.50"}

    assert without_report({**report, **others}) == others


@pytest.mark.parametrize("cpus", [(), (4,), (4, 8, 16)])
def test_hardware_has_one_node_per_list_entry(cpus):
    hardware = Hardware(gpus_per_node=(0,) * len(cpus), cpus_per_node=cpus, memory_per_node_mb=cpus)

    assert hardware.node_count == len(cpus)
