# SPDX-License-Identifier: Apache-2.0
"""The suite ``network``: messages between the nodes, with mpi4py.

The label about the latency and the bandwidth of two nodes is the median of the pairs of neighbours
in the sorted list of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from gridstead.domain.benchmarks.metrics import Kind, Metric
from gridstead.domain.benchmarks.outputs import messages
from gridstead.domain.benchmarks.outputs.messages import PointToPoint
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput, median
from gridstead.domain.benchmarks.scripts import file_command, mpi_variables, script
from gridstead.domain.benchmarks.site import (
    Findings,
    MeasuredSite,
    Measurement,
    Mode,
    Outcomes,
    PairMeasurement,
    Step,
    texts_of,
)

LATENCY = Metric(name="latency", unit="us", kind=Kind.NETWORK, is_time=True)
BANDWIDTH = Metric(name="bandwidth", unit="Mbit/s", kind=Kind.NETWORK)
_ALL_TO_ALL = "network-all-to-all"
_LIMITS_S = {Mode.LAB: 60, Mode.QUICK: 120, Mode.FULL: 600}
_PINGPONG = " ".join(("python3", *messages.PINGPONG_ARGUMENTS))
# How often each message is sent in a lab: small messages, large ones, and those above 1 MiB.
_LAB_LOOPS = "--loop 100 --skip 10 --loop-large 20 --skip-large 2 --loop-huge 5 --skip-huge 1"


def steps(site: MeasuredSite) -> tuple[Step, ...]:
    """Return one step for each pair of neighbours, and one of all nodes. None for a single node."""
    if len(site.nodes) == 1:
        return ()
    limit_s = _LIMITS_S[site.options.mode]
    pingpong = _PINGPONG
    if site.options.mode is Mode.LAB:
        pingpong = f"{_PINGPONG} {_LAB_LOOPS}"
    pairs = [
        Step(
            name=_pair_name(first, second),
            nodes=(first, second),
            tasks_per_node=1,
            script=script((mpi_variables(site), pingpong)),
            limit_s=limit_s,
        )
        for first, second in pairwise(site.names)
    ]
    all_to_all = Step(
        name=_ALL_TO_ALL,
        nodes=site.names,
        tasks_per_node=1,
        script=script(
            (
                mpi_variables(site),
                file_command("all_to_all.py", messages.ALL_TO_ALL_SCRIPT),
                "python3 all_to_all.py",
            )
        ),
        limit_s=limit_s,
    )
    return (*pairs, all_to_all)


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return the latency and bandwidth of each pair, and the labels of the site."""
    site_findings = Findings()
    if len(site.nodes) == 1:
        site_findings.omit("network.p2p.*, network.all-to-all.*", "there is only one node")
        return site_findings
    pairs: dict[tuple[str, str], PointToPoint] = {}
    reasons = []
    for pair in pairwise(site.names):
        try:
            pairs[pair] = messages.parse_pingpong("".join(texts_of(outcomes, _pair_name(*pair))))
        except UnusableOutput as error:
            reasons.append(f"{' to '.join(pair)}: {error.message}")
    point_to_point = None
    if reasons:
        site_findings.omit("network.p2p.*", "; ".join(reasons))
    else:
        point_to_point = PointToPoint(
            latency_us=median(each.latency_us for each in pairs.values()),
            bandwidth_mbps=median(each.bandwidth_mbps for each in pairs.values()),
        )
    all_to_all_us = None
    try:
        all_to_all_us = messages.parse_all_to_all("".join(texts_of(outcomes, _ALL_TO_ALL)))
    except UnusableOutput as error:
        site_findings.omit("network.all-to-all.latency.us", error.message)
    site_findings.labels += messages.labels(point_to_point, all_to_all_us, nodes=len(site.nodes))
    site_findings.measurements += _measurements(site, pairs)
    site_findings.pairs += _pair_measurements(pairs)
    return site_findings


def _pair_name(first: str, second: str) -> str:
    return f"network-{first}-{second}"


def _pair_measurements(
    pairs: Mapping[tuple[str, str], PointToPoint],
) -> Iterator[PairMeasurement]:
    for pair, result in pairs.items():
        yield PairMeasurement(nodes=pair, metric=LATENCY, value=result.latency_us)
        yield PairMeasurement(nodes=pair, metric=BANDWIDTH, value=result.bandwidth_mbps)


def _measurements(
    site: MeasuredSite, pairs: Mapping[tuple[str, str], PointToPoint]
) -> Iterator[Measurement]:
    """Yield the best figures of each node, because a slow neighbour slows a pair too."""
    for node in site.names:
        own_pairs = [result for pair, result in pairs.items() if node in pair]
        if not own_pairs:
            continue
        latency_us = LATENCY.best(*(each.latency_us for each in own_pairs))
        bandwidth_mbps = BANDWIDTH.best(*(each.bandwidth_mbps for each in own_pairs))
        yield Measurement(node=node, metric=LATENCY, value=latency_us)
        yield Measurement(node=node, metric=BANDWIDTH, value=bandwidth_mbps)
