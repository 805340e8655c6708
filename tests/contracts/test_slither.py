# SPDX-License-Identifier: Apache-2.0
"""Tests that contracts/exceptions.toml lists Slither's findings of high or medium impact.

These findings are called serious.
"""

import json
import os
import shutil
import subprocess

import pytest

SERIOUS_IMPACTS = ("High", "Medium")


@pytest.fixture(scope="module")
def findings(slither, contracts_dir, forge_path, tmp_path_factory):
    """Return the findings of Slither, as pairs of detector and element.

    Slither runs on a copy of the sources, because Slither runs `forge clean`. The tests are left
    out of the copy. Slither's path filter is not used for that, because it hides more than the
    tests.
    """
    copy = tmp_path_factory.mktemp("slither")
    for name in ("src", "bin"):
        shutil.copytree(contracts_dir / name, copy / name)
    shutil.copy(contracts_dir / "foundry.toml", copy)
    (copy / "node_modules").symlink_to(contracts_dir / "node_modules")
    report = copy / "report.json"
    result = subprocess.run(
        [slither, ".", "--json", report, "--fail-none"],
        cwd=copy,
        env={**os.environ, "PATH": f"{forge_path.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    results = json.loads(report.read_text())["results"]["detectors"]
    serious = set()
    for finding in results:
        if finding["impact"] in SERIOUS_IMPACTS:
            source = finding["elements"][0]["source_mapping"]["filename_relative"]
            if not source.startswith("src/"):
                continue  # A finding in OpenZeppelin's sources.
            # Description: "JobSteps._pay(address,uint256) (src/JobSteps.sol#235-238) uses ..."
            element = finding["description"].split(" (")[0]
            serious.add((finding["check"], element))
    return serious


@pytest.fixture(scope="module")
def listed_findings(read_exceptions):
    return {(entry["check"], entry["element"]) for entry in read_exceptions("slither")}


def test_every_serious_finding_is_listed_with_a_reason(findings, listed_findings):
    assert findings - listed_findings == set()


def test_every_listed_finding_still_exists(findings, listed_findings):
    assert listed_findings - findings == set()
