# SPDX-License-Identifier: Apache-2.0
"""Slither finds nothing of high or medium impact but what contracts/exceptions.toml explains."""

import json
import os
import shutil
import subprocess

import pytest

SERIOUS = ("High", "Medium")


@pytest.fixture(scope="module")
def findings(slither, contracts_dir, forge_path, tmp_path_factory):
    """Return what slither finds, as pairs of detector and element.

    It works on a copy of the sources alone, because it begins with `forge clean` and its path
    filter hides more than the tests.
    """
    copy = tmp_path_factory.mktemp("slither")
    for name in ("src", "bin"):
        shutil.copytree(contracts_dir / name, copy / name)
    shutil.copy(contracts_dir / "foundry.toml", copy)
    (copy / "node_modules").symlink_to(contracts_dir / "node_modules")
    report = copy / "report.json"
    done = subprocess.run(
        [slither, ".", "--json", report, "--fail-none"],
        cwd=copy,
        env={**os.environ, "PATH": f"{forge_path.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(report.read_text())["results"]["detectors"]
    return {
        (found["check"], found["description"].split(" (")[0])
        for found in results
        if found["impact"] in SERIOUS
    }


def test_every_serious_finding_has_a_written_reason(findings, exceptions):
    assert (
        findings - {(entry["check"], entry["element"]) for entry in exceptions("slither")} == set()
    )


def test_no_reason_outlives_its_finding(findings, exceptions):
    assert {
        (entry["check"], entry["element"]) for entry in exceptions("slither")
    } - findings == set()
