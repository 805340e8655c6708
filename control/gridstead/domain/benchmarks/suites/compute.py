# SPDX-License-Identifier: Apache-2.0
"""The suite ``compute``: hpcc on each node alone, with one process per core.

The label ``compute.gflops`` is the median of the nodes times their number: the speed of independent
jobs. The speed of one job on all nodes is lower and depends on the network.
"""

from __future__ import annotations

import math

from gridstead.domain.benchmarks.metrics import Kind, Metric
from gridstead.domain.benchmarks.outputs import hpcc
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput, median, number_label
from gridstead.domain.benchmarks.scripts import file_command, script
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

HPL = Metric(name="compute", unit="Gflop/s", kind=Kind.COMPUTE)
STREAM = Metric(name="memory", unit="GB/s", kind=Kind.COMPUTE)
_KEY = "compute.gflops"
_LIMITS_S = {Mode.LAB: 60, Mode.QUICK: 95, Mode.FULL: 4 * 3600}
# In quick mode, HPL takes at most this time on cores of this speed. Most cores are faster. The
# other tests of hpcc together take a few times as long.
_QUICK_HPL_S = 20
_SLOW_CORE_FLOPS = 4 * 10**9
# The hosts of a lab share the cores of one machine.
_LAB_CORES = 1
_LAB_MEMORY_MIB = 25  # HPL with N = 960
_COMMANDS = (
    # Each process computes with one thread.
    "export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1",
    "hpcc >&2",
    # Only the first process writes the results.
    "[[ ! -e hpccoutf.txt ]] || cat hpccoutf.txt",
)


def steps(site: MeasuredSite) -> tuple[Step, ...]:
    """Return one step for each node."""
    return tuple(
        Step(
            name=f"compute-{node.name}",
            nodes=(node.name,),
            tasks_per_node=_processes(site, node),
            script=script(
                (file_command("hpccinf.txt", hpcc.render(_size(site, node))), *_COMMANDS)
            ),
            limit_s=_LIMITS_S[site.options.mode],
        )
        for node in site.nodes
    )


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return the speed of each node, and the labels of the site.

    The label is left out if a node was not measured, because the value would be too high for it.
    """
    site_findings = Findings()
    speeds = []
    reasons = []
    for node in site.nodes:
        try:
            result = hpcc.parse(
                "".join(texts_of(outcomes, f"compute-{node.name}")), _size(site, node)
            )
        except UnusableOutput as error:
            reasons.append(f"{node.name}: {error.message}")
            continue
        speeds.append(result.gflops)
        for metric, value in ((HPL, result.gflops), (STREAM, result.stream_gbytes)):
            site_findings.measurements.append(
                Measurement(node=node.name, metric=metric, value=value)
            )
    if site.measures_gpus:
        return site_findings  # The label is that of the suite gpu.
    if reasons:
        site_findings.omit(_KEY, "; ".join(reasons))
    else:
        site_findings.labels.append(number_label(_KEY, median(speeds) * len(speeds)))
    return site_findings


def _processes(site: MeasuredSite, node: Node) -> int:
    return min(node.cores, _LAB_CORES) if site.options.mode is Mode.LAB else node.cores


def _size(site: MeasuredSite, node: Node) -> hpcc.HpccInput:
    """Return the size of the run on a node."""
    is_lab, is_full = site.options.mode is Mode.LAB, site.options.mode is Mode.FULL
    memory_mib = min(node.memory_mib, _LAB_MEMORY_MIB) if is_lab else node.memory_mib
    percent = hpcc.FULL_MEMORY_PERCENT if is_full else hpcc.DEFAULT_MEMORY_PERCENT
    return hpcc.size(
        nodes=1,
        processes_per_node=_processes(site, node),
        memory_per_node_mib=memory_mib,
        memory_percent=percent,
        largest_order=_quick_order(node) if site.options.mode is Mode.QUICK else None,
    )


def _quick_order(node: Node) -> int:
    """Return the N of HPL whose 2/3 N^3 operations take the time of quick mode on slow cores."""
    operations = _QUICK_HPL_S * _SLOW_CORE_FLOPS * node.cores
    return round(math.cbrt(operations * 3 / 2))
