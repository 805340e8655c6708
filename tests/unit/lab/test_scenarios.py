# SPDX-License-Identifier: Apache-2.0
"""The labs that this checkout describes: its own, and those of molecule's scenarios."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from gridstead_lab import topology

CHECKOUT = Path(__file__).parents[3]
TOPOLOGIES = sorted(CHECKOUT.glob("molecule/*/topology.json"))
# A scenario with plays of its own needs their groups alone.
OF_A_SITE = [
    file for file in TOPOLOGIES
    if not (own := file.with_name("converge.yml")).exists() or "/site.yml" in own.read_text()
]  # fmt: skip
SCENARIOS = sorted(CHECKOUT.glob("molecule/*/molecule.yml"))
NAMED_BY_ANSIBLE = {"all", "localhost"}
# Also empty, by inventory/lab/hosts.py.
IN_EVERY_LAB = {"slurm_backup_controller"}
MADE_BY_PLAYS = {
    "add_node_all", "add_node_new", "upgrade_accounting", "upgrade_backup_controller", "upgrade_compute",
    "upgrade_controller", "upgrade_login",
}  # fmt: skip


def groups_of_plays():
    """Return the groups that the plays of the site run on."""
    plays = [
        play
        for file in (CHECKOUT / "playbooks").glob("*.yml")
        for play in yaml.safe_load(file.read_text())
    ]
    hosts = [re.sub(r"{{.*?}}", "", play.get("hosts", "")) for play in plays]
    named = {name for pattern in hosts for name in re.findall(r"[a-z]\w+", pattern)}
    return named - NAMED_BY_ANSIBLE - IN_EVERY_LAB - MADE_BY_PLAYS


@pytest.mark.parametrize("file", OF_A_SITE, ids=lambda file: file.parent.name)
def test_a_lab_has_every_group_that_a_play_of_the_site_runs_on(file):
    lab = topology.parse(file.read_text())

    assert (
        groups_of_plays()
        - {name for host in lab.hosts for name in host.groups}
        - dict(lab.groups).keys()
        == set()
    )


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.parent.name)
def test_a_scenario_runs_all_its_tests(file):
    scenario = yaml.safe_load(file.read_text())
    folders = {str(test.parent.relative_to(file.parent)) for test in file.parent.rglob("test_*.py")}

    steps = [step.split() for step in scenario["scenario"]["test_sequence"]]

    run = {
        (words[1:] or [scenario["verifier"]["directory"]])[0]
        for words in steps
        if words[0] == "verify"
    }
    assert folders == run


@pytest.fixture
def scenarios_run(tmp_path, monkeypatch):
    """Return a function that returns which scenarios a make target runs, recorded by a double of
    molecule.
    """
    record = tmp_path / "record"
    molecule = tmp_path / "molecule"
    molecule.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "test --scenario-name" ] && echo "$3" >>{record}\n'
    )
    molecule.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def run(target):
        printed = subprocess.run(
            ["make", "--dry-run", target], cwd=CHECKOUT, check=True, capture_output=True, text=True
        )
        (command,) = re.findall(r"^tools/molecule.*", printed.stdout, re.MULTILINE)
        subprocess.run(command.split(), cwd=CHECKOUT, check=True, capture_output=True)
        return sorted(record.read_text().split())

    return run


def test_make_molecule_all_runs_every_scenario(scenarios_run):
    assert scenarios_run("molecule-all") == [file.parent.name for file in SCENARIOS]


def test_make_molecule_runs_the_scenarios_that_the_page_says_ci_runs(scenarios_run):
    page = (CHECKOUT / "docs/reference/molecule.md").read_text()
    (said,) = re.findall(r"`make molecule` runs (.*), as CI does", page)

    assert scenarios_run("molecule") == sorted(re.findall(r"`(\w+)`", said))
    assert "\nmake molecule\n" in (CHECKOUT / ".ci/run").read_text()


def test_the_page_lists_every_scenario():
    page = (CHECKOUT / "docs/reference/molecule.md").read_text()
    scenarios, _, _ = page.partition("| step |")

    assert re.findall(r"^\| `(\w+)` \|", scenarios, re.MULTILINE) == [
        file.parent.name for file in SCENARIOS
    ]
