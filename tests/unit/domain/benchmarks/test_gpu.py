# SPDX-License-Identifier: Apache-2.0
"""Tests of the suite about GPUs."""

from dataclasses import replace
from decimal import Decimal

from tests.unit.domain.benchmarks.sites import failures, labels, reasons, site
from tests.unit.domain.benchmarks.written import GPU_NAMES, HPL_AI

from gridstead.domain.benchmarks import run
from gridstead.domain.benchmarks.suites import compute, gpu

GFLOPS = Decimal("26900.25")  # the best run of HPL_AI


def measured(pair):
    """Return outcomes in which the GPUs of n1 and n2 were measured."""
    outcomes = failures(pair)
    for node in ("n1", "n2"):
        outcomes[f"gpu-models-{node}"] = (GPU_NAMES,)
        outcomes[f"gpu-compute-{node}"] = (HPL_AI, "", "", "")
    return outcomes


def test_nodes_without_gpus_have_no_label_and_a_reason():
    findings = gpu.findings(site("n1", gpu_command="xhpl-ai"), {})

    assert gpu.steps(site("n1", gpu_command="xhpl-ai")) == ()
    assert reasons(findings) == {"gpu": "no node has GPUs in Slurm"}


def test_without_a_program_only_the_models_are_read():
    node = site("n1", gpus=4)
    (step,) = gpu.steps(node)

    findings = gpu.findings(node, {step.name: (GPU_NAMES,)})

    assert (step.tasks_per_node, step.gpus_per_node) == (1, 4)
    assert labels(findings) == {"gpu": "nvidia-a100-sxm4-40gb"}
    assert not findings.measurements


def test_the_program_runs_once_for_each_gpu_of_a_node():
    steps = {step.name: step for step in gpu.steps(site("n1", gpus=4, gpu_command="xhpl-ai"))}

    step = steps["gpu-compute-n1"]
    assert (step.tasks_per_node, step.gpus_per_node) == (4, 4)
    assert "export GRIDSTEAD_GPUS=4\nxhpl-ai\n" in step.script


def test_the_speed_of_the_gpus_replaces_that_of_the_cpus():
    pair = site("n1", "n2", gpus=4, gpu_command="xhpl-ai")

    findings = run.findings(pair, measured(pair))

    assert labels(findings)["compute.gflops"] == str(2 * GFLOPS)
    assert "compute.gflops" not in reasons(findings)
    speeds = [each.value for each in findings.measurements if each.metric == gpu.GPU_COMPUTE]
    assert speeds == [GFLOPS, GFLOPS]


def test_the_speed_is_left_out_if_the_program_failed_on_a_node():
    pair = site("n1", "n2", gpus=4, gpu_command="xhpl-ai")
    outcomes = measured(pair) | {"gpu-compute-n2": ("FAILED\n",)}

    findings = run.findings(pair, outcomes)

    assert "compute.gflops" not in labels(findings)
    assert "n2: cannot use the output of xhpl-ai" in reasons(findings)["compute.gflops"]


def test_the_speed_of_the_cpus_counts_if_some_nodes_have_no_gpus():
    pair = site("n1", "n2", gpus=4, gpu_command="xhpl-ai")
    mixed = replace(pair, nodes=(pair.nodes[0], replace(pair.nodes[1], gpus=0)))
    outcomes = measured(pair)

    findings = gpu.findings(mixed, outcomes)

    assert "compute.gflops" not in labels(findings)
    assert [each.node for each in findings.measurements] == ["n1"]
    assert reasons(findings) == {"compute.gflops of GPUs": "some nodes have no GPUs"}
    assert "compute.gflops" in reasons(compute.findings(mixed, outcomes))


def test_a_node_with_fewer_gpus_than_in_slurm_has_no_label():
    node = site("n1", gpus=8)

    findings = gpu.findings(node, {"gpu-models-n1": (GPU_NAMES,)})

    assert "it lists 4 GPUs, but Slurm has 8" in reasons(findings)["gpu"]


def test_models_that_are_too_long_for_a_label_are_left_out():
    node = site("n1", gpus=2)
    models = f"NVIDIA {'A' * 40}\nNVIDIA {'B' * 40}\n"

    findings = gpu.findings(node, {"gpu-models-n1": (models,)})

    assert reasons(findings) == {"gpu": "the names of all models together are too long for a label"}
