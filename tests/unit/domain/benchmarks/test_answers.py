# SPDX-License-Identifier: Apache-2.0
"""Tests of the nodes that are not measured or start no job."""

from tests.unit.domain.benchmarks.sites import failures, site

from gridstead.domain.benchmarks.site import Diagnostic, Node
from gridstead.domain.benchmarks.suites import answers

DRAINED = Node(
    name="n0", cores=2, memory_mib=2500, unavailable="its state is IDLE+DRAIN (bad disk)"
)


def test_a_node_without_jobs_is_reported_with_its_state():
    measured_site = site("n1", unavailable_nodes=(DRAINED,))

    assert answers.steps(measured_site) == ()
    assert answers.findings(measured_site, {}).diagnostics == [
        Diagnostic(node="n0", reason="it is not measured: its state is IDLE+DRAIN (bad disk)")
    ]


def test_each_node_must_start_a_job_if_the_operator_wants():
    measured_site = site("n1", "n2", unavailable_nodes=(DRAINED,), asks_all_nodes=True)
    outcomes = failures(measured_site) | {"answers-n1": ("n1\n",)}

    diagnostics = answers.findings(measured_site, outcomes).diagnostics

    assert [step.nodes for step in answers.steps(measured_site)] == [("n0",), ("n1",), ("n2",)]
    assert [diagnostic.node for diagnostic in diagnostics] == ["n0", "n0", "n2"]
    assert diagnostics[-1].reason == "its job did not succeed: no power"
