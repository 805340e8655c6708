# SPDX-License-Identifier: Apache-2.0
"""Tests of the suite about the Internet."""

import subprocess

import pytest
from tests.unit.domain.benchmarks.recorded_outputs import recorded
from tests.unit.domain.benchmarks.sites import labels, reasons, site

from gridstead.domain.benchmarks.site import Failure
from gridstead.domain.benchmarks.suites import internet

KEYS = "network.download.bw.mbps, network.upload.bw.mbps"
SEPARATOR = "--- next output ---\n"


def test_the_internet_is_not_measured_unless_it_is_configured():
    assert internet.steps(site("n1")) == ()
    assert reasons(internet.findings(site("n1"), {})) == {
        KEYS: "no measurement of the Internet is configured"
    }


def test_librespeed_runs_on_one_node_of_a_quiet_site():
    pair = site("n1", "n2", internet="librespeed")
    (step,) = internet.steps(pair)

    findings = internet.findings(pair, {"internet": (recorded("librespeed.json"),)})

    assert (step.nodes, step.needs_quiet) == (("n1",), True)
    assert "\nlibrespeed-cli --json " in step.script
    assert set(labels(findings)) == {"network.download.bw.mbps", "network.upload.bw.mbps"}


def test_a_site_that_is_offline_has_no_labels_and_a_reason():
    node = site("n1", internet="librespeed")

    findings = internet.findings(node, {"internet": Failure(reason="no server")})

    assert reasons(findings) == {KEYS: "cannot use the output of step internet: no server"}


def test_iperf3_measures_both_directions():
    node = site("n1", internet="peer.test:5201")
    text = recorded("iperf3-up.json") + SEPARATOR + recorded("iperf3-down.json")

    findings = internet.findings(node, {"internet": (text,)})

    assert set(labels(findings)) == {"network.download.bw.mbps", "network.upload.bw.mbps"}


def test_the_error_of_iperf3_is_the_reason():
    node = site("n1", internet="peer.test:5201")
    refused = recorded("iperf3-refused.json")

    findings = internet.findings(node, {"internet": (refused + SEPARATOR + refused,)})

    assert "Connection refused" in reasons(findings)[KEYS]


def test_an_output_of_one_direction_is_refused():
    node = site("n1", internet="peer.test:5201")

    findings = internet.findings(node, {"internet": (recorded("iperf3-up.json"),)})

    assert "it does not have two parts" in reasons(findings)[KEYS]


@pytest.mark.parametrize(("exit_code", "ends_with", "runs"), [(1, 0, 2), (127, 1, 1)])
def test_the_script_continues_only_if_iperf3_printed_its_error(
    tmp_path, exit_code, ends_with, runs
):
    (step,) = internet.steps(site("n1", internet="peer.test:5201"))
    iperf3 = tmp_path / "iperf3"
    iperf3.write_text(f'#!/bin/sh\necho "$@"\nexit {exit_code}\n')
    iperf3.chmod(0o755)

    result = subprocess.run(
        ["bash", "-c", step.script],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )

    lines = (
        "--client peer.test --port 5201 --time 10 --json",
        SEPARATOR.strip(),
        "--client peer.test --port 5201 --time 10 --json --reverse",
    )
    assert result.returncode == ends_with
    assert result.stdout.splitlines() == list(lines[: 2 * runs - 1])
