# SPDX-License-Identifier: Apache-2.0
"""The suite ``gpu``: the models of the GPUs, and HPL-AI with the program of the operator.

HPL-AI runs on each node alone, with one process per GPU. If all nodes have GPUs, the label
``compute.gflops`` is the median of the nodes times their number, as in the suite ``compute``, whose
label it replaces.
"""

from __future__ import annotations

from gridstead.domain.benchmarks.metrics import Kind, Metric
from gridstead.domain.benchmarks.outputs import hpl_ai
from gridstead.domain.benchmarks.outputs.reading import (
    Output,
    UnusableOutput,
    median,
    name_label,
    number_label,
)
from gridstead.domain.benchmarks.scripts import path_command, script
from gridstead.domain.benchmarks.site import (
    Findings,
    MeasuredSite,
    Measurement,
    Mode,
    Node,
    Outcomes,
    Step,
    texts_of,
)

GPU_COMPUTE = Metric(name="GPU compute", unit="Gflop/s", kind=Kind.COMPUTE)
_LIMITS_S = {Mode.LAB: 60, Mode.QUICK: 60, Mode.FULL: 4 * 3600}
_MODELS_LIMIT_S = 15
_MODELS_COMMAND = "nvidia-smi --query-gpu=name --format=csv,noheader"


def steps(site: MeasuredSite) -> tuple[Step, ...]:
    """Return one step for each node with GPUs, or two if the operator has named a program."""
    planned_steps = []
    for node in _gpu_nodes(site):
        planned_steps.append(
            Step(
                name=_models_step(node),
                nodes=(node.name,),
                tasks_per_node=1,
                script=script((_MODELS_COMMAND,)),
                limit_s=_MODELS_LIMIT_S,
                gpus_per_node=node.gpus,
            )
        )
        if site.options.gpu_command:
            planned_steps.append(_compute_step(site, node))
    return tuple(planned_steps)


def _compute_step(site: MeasuredSite, node: Node) -> Step:
    commands = (
        path_command(site),
        f"export GRIDSTEAD_GPUS={node.gpus}",
        site.options.gpu_command,
    )
    return Step(
        name=_compute_name(node),
        nodes=(node.name,),
        tasks_per_node=node.gpus,
        script=script(commands),
        limit_s=_LIMITS_S[site.options.mode],
        gpus_per_node=node.gpus,
    )


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return the speed of the GPUs of each node, and the labels of the site."""
    site_findings = Findings()
    if not _gpu_nodes(site):
        site_findings.omit("gpu", "no node has GPUs in Slurm")
        return site_findings
    _add_models(site, outcomes, site_findings)
    if site.options.gpu_command:
        _add_speeds(site, outcomes, site_findings)
    return site_findings


def _add_models(site: MeasuredSite, outcomes: Outcomes, site_findings: Findings) -> None:
    models: list[str] = []
    for node in _gpu_nodes(site):
        text = ""
        try:
            text = "".join(texts_of(outcomes, _models_step(node)))
            node_models = hpl_ai.parse_names(text)
            if len(node_models) != node.gpus:
                reason = f"it lists {len(node_models)} GPUs, but Slurm has {node.gpus}"
                raise Output("nvidia-smi", text).error(reason)
        except UnusableOutput as error:
            site_findings.omit("gpu", f"{node.name}: {error.message}")
            return
        models += node_models
    label = name_label("gpu", models)
    if label is None:
        site_findings.omit("gpu", "the names of all models together are too long for a label")
    else:
        site_findings.labels.append(label)


def _add_speeds(site: MeasuredSite, outcomes: Outcomes, site_findings: Findings) -> None:
    speeds = []
    reasons = []
    for node in _gpu_nodes(site):
        try:
            text = "".join(texts_of(outcomes, _compute_name(node)))
            speed = hpl_ai.parse(text, gpus=node.gpus).gflops
        except UnusableOutput as error:
            reasons.append(f"{node.name}: {error.message}")
            continue
        speeds.append(speed)
        site_findings.measurements.append(
            Measurement(node=node.name, metric=GPU_COMPUTE, value=speed)
        )
    if not site.measures_gpus:
        site_findings.omit("compute.gflops of GPUs", "some nodes have no GPUs")
    elif reasons:
        site_findings.omit("compute.gflops", "; ".join(reasons))
    else:
        site_findings.labels.append(number_label("compute.gflops", median(speeds) * len(speeds)))


def _gpu_nodes(site: MeasuredSite) -> list[Node]:
    return [node for node in site.nodes if node.gpus]


def _models_step(node: Node) -> str:
    return f"gpu-models-{node.name}"


def _compute_name(node: Node) -> str:
    return f"gpu-compute-{node.name}"
