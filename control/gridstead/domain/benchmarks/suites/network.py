# SPDX-License-Identifier: Apache-2.0
"""The suite ``network``: messages between the nodes, with OSU or mpi4py.

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
from gridstead.domain.benchmarks.scripts import (
    file_command,
    mpi_variables,
    path_command,
    script,
)
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
_LIMITS_S = {Mode.LAB: 60, Mode.QUICK: 60, Mode.FULL: 600}
# How often each message is sent: small messages, large ones, and those above 1 MiB.
_LOOPS = {
    Mode.LAB: " --loop 100 --skip 10 --loop-large 20 --skip-large 2 --loop-huge 5 --skip-huge 1",
    Mode.QUICK: (
        " --loop 2000 --skip 100 --loop-large 200 --skip-large 10 --loop-huge 20 --skip-huge 2"
    ),
    Mode.FULL: "",
}
_PINGPONG = " ".join(("python3", *messages.PINGPONG_ARGUMENTS))
_OSU_LATENCY = " ".join(("osu_latency", *messages.OSU_ARGUMENTS))
_OSU_BANDWIDTH = " ".join(("osu_bw", *messages.OSU_ARGUMENTS))
_OSU_ALL_TO_ALL = " ".join(("osu_alltoall", *messages.OSU_ALL_TO_ALL_ARGUMENTS))
_FEW_MESSAGES = " -i 200 -x 20"
_FEW_WINDOWS = " -i 10 -x 2"  # of 64 messages


def steps(site: MeasuredSite) -> tuple[Step, ...]:
    """Return the steps of each pair of neighbours, and one of all nodes.

    The pairs are in an order in which half of them, and then the other half, can run at the same
    time.
    """
    if _reason(site):
        return ()
    pairs = _neighbours(site)
    pair_steps = [
        _step(site, _pair_name(test, pair), pair, command)
        for test, command in _pair_commands(site).items()
        for pair in (*pairs[::2], *pairs[1::2])
    ]
    return (*pair_steps, _step(site, _ALL_TO_ALL, site.names, _all_to_all_command(site)))


def _neighbours(site: MeasuredSite) -> tuple[tuple[str, str], ...]:
    """Return the pairs of neighbours in a ring. Two nodes are one pair.

    In a ring, a node has a pair without its slow neighbour.
    """
    pairs = list(pairwise(site.names))
    if len(pairs) > 1:
        pairs.append((site.names[-1], site.names[0]))
    return tuple(pairs)


def _reason(site: MeasuredSite) -> str:
    """Return why nothing is measured. Empty if it is measured."""
    if len(site.nodes) == 1:
        return "there is only one node"
    return "the setting single_node is true" if site.options.single_node else ""


def _step(site: MeasuredSite, name: str, nodes: tuple[str, ...], command: str) -> Step:
    return Step(
        name=name,
        nodes=nodes,
        tasks_per_node=1,
        script=script((path_command(site), mpi_variables(site), command)),
        limit_s=_LIMITS_S[site.options.mode],
        needs_quiet=True,
    )


def _pair_commands(site: MeasuredSite) -> Mapping[str, str]:
    """Return the command of each test of a pair, by the name of the test."""
    mode = site.options.mode
    if not site.equipment.has_osu:
        return {"pingpong": _PINGPONG + _LOOPS[mode]}
    if mode is Mode.FULL:
        return {"latency": _OSU_LATENCY, "bandwidth": _OSU_BANDWIDTH}
    return {
        "latency": _OSU_LATENCY + _FEW_MESSAGES,
        "bandwidth": _OSU_BANDWIDTH + _FEW_WINDOWS,
    }


def _all_to_all_command(site: MeasuredSite) -> str:
    if not site.equipment.has_osu:
        script_command = file_command("all_to_all.py", messages.ALL_TO_ALL_SCRIPT)
        return f"{script_command}\npython3 all_to_all.py"
    few = "" if site.options.mode is Mode.FULL else _FEW_MESSAGES
    return f"{_OSU_ALL_TO_ALL}{few}"


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return the latency and bandwidth of each pair, and the labels of the site."""
    site_findings = Findings()
    reason = _reason(site)
    if reason:
        site_findings.omit("network.p2p.*, network.all-to-all.*", reason)
        return site_findings
    site_findings.transport = site.equipment.transport
    pairs: dict[tuple[str, str], PointToPoint] = {}
    reasons = []
    for pair in _neighbours(site):
        try:
            pairs[pair] = _pair_result(site, pair, outcomes)
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


def _pair_result(site: MeasuredSite, pair: tuple[str, str], outcomes: Outcomes) -> PointToPoint:
    """Return the figures of a pair. Raises UnusableOutput if an output is missing or unusable."""
    texts = ["".join(texts_of(outcomes, _pair_name(test, pair))) for test in _pair_commands(site)]
    if site.equipment.has_osu:
        return messages.parse_osu(*texts)
    return messages.parse_pingpong(*texts)


def _pair_name(test: str, pair: tuple[str, str]) -> str:
    return f"network-{test}-{'-'.join(pair)}"


def _pair_measurements(
    pairs: Mapping[tuple[str, str], PointToPoint],
) -> Iterator[PairMeasurement]:
    for pair, result in pairs.items():
        yield PairMeasurement(nodes=pair, metric=LATENCY, value=result.latency_us)
        yield PairMeasurement(nodes=pair, metric=BANDWIDTH, value=result.bandwidth_mbps)


def _measurements(
    site: MeasuredSite, pairs: Mapping[tuple[str, str], PointToPoint]
) -> Iterator[Measurement]:
    """Yield the best figures of each node, because a slow neighbour slows a pair too.

    A node of which a pair has no figures is left out.
    """
    all_pairs = _neighbours(site)
    for node in site.names:
        own_pairs = [pairs.get(pair) for pair in all_pairs if node in pair]
        own_results = [result for result in own_pairs if result is not None]
        if len(own_results) < len(own_pairs):
            continue
        latency_us = LATENCY.best(*(each.latency_us for each in own_results))
        bandwidth_mbps = BANDWIDTH.best(*(each.bandwidth_mbps for each in own_results))
        yield Measurement(node=node, metric=LATENCY, value=latency_us)
        yield Measurement(node=node, metric=BANDWIDTH, value=bandwidth_mbps)
