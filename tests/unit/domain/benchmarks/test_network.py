# SPDX-License-Identifier: Apache-2.0
"""Tests of the suite about messages between nodes."""

import pytest
from tests.unit.domain.benchmarks.sites import failures, labels, reasons, site
from tests.unit.domain.benchmarks.written import OSU_ALL_TO_ALL, OSU_BANDWIDTH, OSU_LATENCY

from gridstead.domain.benchmarks import run
from gridstead.domain.benchmarks.equipment import Equipment
from gridstead.domain.benchmarks.site import Mode
from gridstead.domain.benchmarks.suites import network

OSU = Equipment(has_osu=True, transport="ucx: all nodes have an active RDMA port")
KEYS = "network.p2p.*, network.all-to-all.*"


def commands(measured_site):
    """Return the last line of each script by the name of its step."""
    return {step.name: step.script.splitlines()[-1] for step in network.steps(measured_site)}


@pytest.mark.parametrize(
    ("mode", "few_messages", "few_windows"),
    [(Mode.QUICK, " -i 200 -x 20", " -i 10 -x 2"), (Mode.FULL, "", "")],
)
def test_osu_runs_where_it_is_installed(mode, few_messages, few_windows):
    assert commands(site("n1", "n2", mode=mode, equipment=OSU)) == {
        "network-latency-n1-n2": f"osu_latency -m 1:4194304{few_messages}",
        "network-bandwidth-n1-n2": f"osu_bw -m 1:4194304{few_windows}",
        "network-all-to-all": f"osu_alltoall -m 1:65536{few_messages}",
    }


def test_the_figures_of_osu_are_labels():
    pair = site("n1", "n2", equipment=OSU)
    outcomes = failures(pair) | {
        "network-latency-n1-n2": (OSU_LATENCY, ""),
        "network-bandwidth-n1-n2": (OSU_BANDWIDTH, ""),
        "network-all-to-all": (OSU_ALL_TO_ALL, ""),
    }

    findings = run.findings(pair, outcomes)

    assert labels(findings) == {
        "network.p2p.latency.us": "1.50",
        "network.p2p.bw.mbps": "96004.00",
        "network.all-to-all.latency.us": "7.25",
    }
    assert findings.transport == OSU.transport


def test_pairs_of_different_nodes_come_first():
    steps = network.steps(site("n1", "n2", "n3", "n4"))

    assert [step.nodes for step in steps] == [
        ("n1", "n2"),
        ("n3", "n4"),
        ("n2", "n3"),
        ("n4", "n1"),
        ("n1", "n2", "n3", "n4"),
    ]
    assert all(step.needs_quiet for step in steps)


@pytest.mark.parametrize(
    ("measured_site", "reason"),
    [
        (site("n1"), "there is only one node"),
        (site("n1", "n2", single_node=True), "the setting single_node is true"),
    ],
)
def test_nothing_is_measured_between_nodes_in_single_node_mode(measured_site, reason):
    findings = network.findings(measured_site, {})

    assert network.steps(measured_site) == ()
    assert reasons(findings) == {KEYS: reason}
    assert findings.transport == ""
