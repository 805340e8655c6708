# SPDX-License-Identifier: Apache-2.0
"""Sites for the tests of the suites."""

from gridstead.domain.benchmarks import run
from gridstead.domain.benchmarks.equipment import Equipment
from gridstead.domain.benchmarks.site import Failure, MeasuredSite, Mode, Node, Options


def site(*names, gpus=0, equipment=None, unavailable_nodes=(), mode=Mode.QUICK, **options):
    """Return a site whose nodes have these names and this number of GPUs."""
    return MeasuredSite(
        nodes=tuple(Node(name=name, cores=2, memory_mib=2500, gpus=gpus) for name in names),
        options=Options(mode=mode, **{"directories": {}, **options}),
        unavailable_nodes=unavailable_nodes,
        equipment=equipment or Equipment(),
    )


def failures(measured_site):
    """Return outcomes in which each step failed."""
    return {step.name: Failure(reason="no power") for step in run.steps(measured_site)}


def labels(findings):
    return {label.key: label.value for label in findings.labels}


def reasons(findings):
    return {omission.keys: omission.reason for omission in findings.omissions}
