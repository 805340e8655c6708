# SPDX-License-Identifier: Apache-2.0
"""Slither has no finding of high or medium impact, except those in contracts/exceptions.toml."""

import json
import os
import shutil
import subprocess

import pytest

SERIOUS = ("High", "Medium")


@pytest.fixture(scope="module")
def findings(slither, contracts_dir, forge_path, tmp_path_factory):
    """Return the findings of slither, as pairs of detector and element.

    Slither runs on a copy of the sources without the tests, because it runs `forge clean` and its
    path filter hides more than the tests.
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
    serious = [result for result in results if result["impact"] in SERIOUS]
    return {(result["check"], result["description"].split(" (")[0]) for result in serious}


@pytest.fixture(scope="module")
def accepted(exceptions):
    return {(entry["check"], entry["element"]) for entry in exceptions("slither")}


def test_every_serious_finding_is_listed_with_a_reason(findings, accepted):
    assert findings - accepted == set()


def test_every_listed_finding_still_exists(findings, accepted):
    assert accepted - findings == set()
