# SPDX-License-Identifier: Apache-2.0
"""The steps of a whole run, and what it found."""

from __future__ import annotations

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
    """Return the steps of all suites."""
    return tuple(step for suite in SUITES.values() for step in suite.steps(site))


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return what a run found.

    Args:
        site: The site.
        outcomes: The outcome of each step of the site.
    """
    site_findings = Findings()
    for suite in SUITES.values():
        site_findings.add(suite.findings(site, outcomes))
    site_findings.omit("gpu", "GPUs are not measured yet")
    site_findings.omit(
        "network.upload.bw.mbps, network.download.bw.mbps", "the Internet is not measured yet"
    )
    return site_findings
