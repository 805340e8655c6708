# SPDX-License-Identifier: Apache-2.0
"""Tests of the names of CPUs."""

import json

import pytest
from tests.unit.domain.benchmarks.recorded_outputs import recorded

from gridstead.domain.benchmarks.outputs.processor import Processor, labels, parse
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput

LSCPU = recorded("lscpu.json")


def lscpu(*rows):
    return json.dumps({"lscpu": list(rows)})


def test_recorded_cpu():
    processor = parse(LSCPU, "zen\n")

    assert processor == Processor(model="AMD EPYC", architecture="x86_64", microarchitecture="zen")
    assert [(label.key, label.value) for label in labels([processor] * 2)] == [
        ("arch", "x86_64"), ("cpu", "amd-epyc"), ("cpu.microarch", "zen"),
    ]  # fmt: skip


def test_nested_fields_are_read():
    model = {"field": "Model name:", "data": "ARM N1"}
    vendor = {"field": "Vendor ID:", "data": None, "children": [model]}

    processor = parse(lscpu({"field": "Architecture:", "data": "aarch64"}, vendor), None)

    assert processor == Processor(model="ARM N1", architecture="aarch64")
    assert [label.key for label in labels([processor])] == ["arch", "cpu"]


def test_names_of_different_nodes_are_joined():
    first = Processor(model="B", architecture="x86_64")
    second = Processor(model="A", architecture="x86_64")

    assert [label.value for label in labels([first, second])] == ["x86_64", "a-b"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LSCPU.replace("Model name:", "Model:"), "Model name: is missing"),
        (LSCPU.replace('"x86_64"', '""'), "Architecture: is missing"),
        ('{"lscpu": 5}', "lscpu is not a list of fields"),
        ("{}", "lscpu is missing"),
    ],
)
def test_other_output_of_lscpu_is_refused(text, reason):
    with pytest.raises(UnusableOutput, match=reason):
        parse(text, None)


@pytest.mark.parametrize("text", ["", "zen\nzen3\n", "Traceback (most recent call last):\n"])
def test_other_output_of_archspec_is_refused(text):
    with pytest.raises(UnusableOutput, match="archspec"):
        parse(LSCPU, text)
