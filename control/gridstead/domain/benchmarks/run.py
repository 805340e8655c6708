# SPDX-License-Identifier: Apache-2.0
"""The steps of a whole run, and what it found."""

from __future__ import annotations

from types import ModuleType

from gridstead.domain.benchmarks.site import Findings, MeasuredSite, Outcomes, Step
from gridstead.domain.benchmarks.suites import compute, network, processor, storage

# The suites by their names.
SUITES = {
    "processor": processor,
    "compute": compute,
    "network": network,
    "storage": storage,
}


def steps(site: MeasuredSite) -> tuple[Step, ...]:
    """Return the steps of the selected suites."""
    return tuple(step for suite in _selected(site) for step in suite.steps(site))


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return what a run found.

    Args:
        site: The site.
        outcomes: The outcome of each step of the site.
    """
    site_findings = Findings()
    for suite in _selected(site):
        site_findings.add(suite.findings(site, outcomes))
    site_findings.omit("gpu", "GPUs are not measured yet")
    site_findings.omit(
        "network.upload.bw.mbps, network.download.bw.mbps", "the Internet is not measured yet"
    )
    return site_findings


def _selected(site: MeasuredSite) -> list[ModuleType]:
    names = site.options.suites or tuple(SUITES)
    return [suite for name, suite in SUITES.items() if name in names]
