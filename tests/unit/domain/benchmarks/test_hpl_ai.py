# SPDX-License-Identifier: Apache-2.0
"""Tests of the output of HPL-AI and of the models of GPUs."""

from decimal import Decimal

import pytest
from tests.unit.domain.benchmarks.written import GPU_NAMES, HPL_AI

from gridstead.domain.benchmarks.outputs.hpl_ai import HplAiResult, labels, parse, parse_names
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput


def pairs(measured):
    return [(label.key, label.value) for label in measured]


def test_fastest_run_with_refinement_counts():
    assert parse(HPL_AI, gpus=4) == HplAiResult(order=100000, gflops=Decimal("26900.25"))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("PASSED", "FAILED", "a residual check failed"),
        ("HPL_AI ", "HPL ", "no line starts with HPL_AI"),
        (" 2 2 12.34", " 2 2", "has 10 fields, not 11"),
        (" 2 2 12.34", " 1 2 12.34", "P x Q is 2, but there are 4 GPUs"),
        ("26900.25", "inf", "Gflop/s with refinement is 'inf', not a number"),
    ],
)
def test_output_of_a_failed_or_another_run_is_refused(old, new, reason):
    assert old in HPL_AI
    with pytest.raises(UnusableOutput, match=reason):
        parse(HPL_AI.replace(old, new), gpus=4)


def test_label_gpu_is_the_model_of_the_gpus():
    result = parse(HPL_AI, gpus=4)

    assert pairs(labels(result, parse_names(GPU_NAMES))) == [
        ("compute.gflops", "26900.25"), ("gpu", "nvidia-a100-sxm4-40gb"),
    ]  # fmt: skip
    assert pairs(labels(None, ["Tesla T4", "NVIDIA L4"])) == [("gpu", "nvidia-l4-tesla-t4")]
    assert labels(None, ["NVIDIA " + "A" * 64]) == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the last line is incomplete"),
        ("No devices were found\n", "'No devices were found' is not the model of a GPU"),
        ("NVIDIA A100\n\n", "'' is not the model of a GPU"),
    ],
)
def test_error_instead_of_models_is_refused(text, reason):
    with pytest.raises(UnusableOutput, match=reason):
        parse_names(text)
