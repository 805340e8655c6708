# SPDX-License-Identifier: Apache-2.0
"""The suite ``internet``: bandwidth between the first node and the Internet."""

from __future__ import annotations

import shlex

from gridstead.domain.benchmarks.outputs import internet
from gridstead.domain.benchmarks.outputs.reading import Output, UnusableOutput
from gridstead.domain.benchmarks.scripts import path_command, script
from gridstead.domain.benchmarks.site import Findings, MeasuredSite, Outcomes, Step, texts_of

OFF = "off"
LIBRESPEED = "librespeed"
_STEP = "internet"
_KEYS = "network.download.bw.mbps, network.upload.bw.mbps"
_LIMIT_S = 40
_SECONDS_PER_DIRECTION = 10
_SEPARATOR = "--- next output ---\n"
_IPERF3_FAILED = 1  # Then its output has the reason.


def steps(site: MeasuredSite) -> tuple[Step, ...]:
    """Return one step on the first node, or none."""
    if site.options.internet == OFF:
        return ()
    return (
        Step(
            name=_STEP,
            nodes=(site.nodes[0].name,),
            tasks_per_node=1,
            script=script((path_command(site), *_commands(site.options.internet))),
            limit_s=_LIMIT_S,
            needs_quiet=True,
        ),
    )


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return the labels of the site."""
    site_findings = Findings()
    if site.options.internet == OFF:
        site_findings.omit(_KEYS, "no measurement of the Internet is configured")
        return site_findings
    try:
        text = "".join(texts_of(outcomes, _STEP))
        site_findings.labels += internet.labels(_parse(site.options.internet, text))
    except UnusableOutput as error:
        site_findings.omit(_KEYS, error.message)
    return site_findings


def _commands(option: str) -> tuple[str, ...]:
    if option == LIBRESPEED:
        return (f"librespeed-cli --json --duration {_SECONDS_PER_DIRECTION}",)
    host, _, port = option.rpartition(":")
    iperf3 = (
        f"iperf3 --client {shlex.quote(host)} --port {shlex.quote(port)}"
        f" --time {_SECONDS_PER_DIRECTION} --json"
    )
    succeeds = f"|| (( $? == {_IPERF3_FAILED} ))"
    return (
        f"{iperf3} {succeeds}",
        f"echo '{_SEPARATOR.strip()}'",
        f"{iperf3} --reverse {succeeds}",
    )


def _parse(option: str, text: str) -> internet.InternetResult:
    if option == LIBRESPEED:
        return internet.parse_librespeed(text)
    upload_text, separator, download_text = text.partition(_SEPARATOR)
    if not separator:
        raise Output("iperf3", text).error("it does not have two parts")
    return internet.parse_iperf3(upload_text, download_text)
