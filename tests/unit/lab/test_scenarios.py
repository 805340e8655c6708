# SPDX-License-Identifier: Apache-2.0
"""The labs of this checkout: the default lab and the labs of the molecule scenarios."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.yaml_files import read_yaml

from gridstead_lab import topology

CHECKOUT = Path(__file__).parents[3]
TOPOLOGIES = sorted(CHECKOUT.glob("molecule/*/topology.json"))


def runs_site_yml(topology_file):
    """Return whether a lab runs site.yml.

    A lab that does not run site.yml needs only the groups of the plays that the lab runs.
    """
    playbook = topology_file.with_name("converge.yml")
    return not playbook.exists() or "/site.yml" in playbook.read_text()


SITE_TOPOLOGIES = list(filter(runs_site_yml, TOPOLOGIES))
SCENARIOS = sorted(CHECKOUT.glob("molecule/*/molecule.yml"))
SCENARIO_NAMES = [file.parent.name for file in SCENARIOS]
NAMED_BY_ANSIBLE = {"all", "localhost"}
# inventory/lab/hosts.py adds these groups to every lab.
IN_EVERY_LAB = {"slurm_backup_controller"}
CREATED_BY_PLAYS = {"add_node_all", "add_node_new", "upgrade_accounting", "upgrade_compute"}
CREATED_BY_PLAYS |= {"upgrade_backup_controller", "upgrade_controller", "upgrade_login"}


def groups_of_plays():
    """Return the groups on which the plays of the site run."""
    groups = set()
    for file in (CHECKOUT / "playbooks").rglob("*.yml"):
        for play in read_yaml(file):
            # The hosts of a play are a pattern that contains the names of groups. The pattern may
            # also contain Jinja expressions, which this line removes.
            pattern = re.sub(r"{{.*?}}", "", play.get("hosts", ""))
            groups |= set(re.findall(r"[a-z]\w+", pattern))
    return groups - NAMED_BY_ANSIBLE - IN_EVERY_LAB - CREATED_BY_PLAYS


@pytest.mark.parametrize("file", SITE_TOPOLOGIES, ids=lambda file: file.parent.name)
def test_a_lab_has_every_group_of_the_sites_plays(file):
    lab = topology.parse(file.read_text())

    groups = set(dict(lab.groups))
    for host in lab.hosts:
        groups.update(host.groups)
    assert groups_of_plays() - groups == set()


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.parent.name)
def test_a_scenario_runs_all_its_tests(file):
    scenario = read_yaml(file)
    folders = set()
    for test in file.parent.rglob("test_*.py"):
        folders.add(str(test.parent.relative_to(file.parent)))

    verified_folders = set()
    for step in scenario["scenario"]["test_sequence"]:
        action, *arguments = step.split()
        if action == "verify":
            folder = arguments[0] if arguments else scenario["verifier"]["directory"]
            verified_folders.add(folder)
    assert folders == verified_folders


@pytest.fixture
def set_molecule(tmp_path, monkeypatch):
    """Return a function that replaces molecule by a shell script with this text."""

    def replace(text):
        molecule = tmp_path / "molecule"
        molecule.write_text(f"#!/bin/sh\n{text}")
        molecule.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return replace


def test_the_errors_of_a_failed_scenario_are_listed_again_at_the_end(set_molecule):
    set_molecule(
        "[ $3 = single ] || exit 0\n"
        "printf '  | \\033[31mfatal: [grid1]: FAILED! =>\\033[0m\\n'\n"
        "printf '  |    stdout: drained\\nok\\n'\n"
        "exit 1\n"
    )

    argv = ["tools/molecule", "single", "default"]
    run = subprocess.run(argv, cwd=CHECKOUT, check=False, capture_output=True, text=True)

    lines = run.stdout.splitlines()
    assert lines[-2:] == [
        "molecule: single: FAILED:   | fatal: [grid1]: FAILED! =>",
        "molecule: single: FAILED:   |    stdout: drained",
    ]
    assert run.returncode == 1


def dry_run(*arguments):
    """Return the commands that make would run."""
    argv = ["make", "--dry-run", *arguments]
    return subprocess.run(argv, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def run_scenarios(tmp_path, set_molecule):
    """Return a function that runs a make target with a fake molecule.

    The function returns the scenarios that the target runs.
    """
    record = tmp_path / "record"
    set_molecule(f'[ "$1 $2" = "test --scenario-name" ] && echo "$3" >>{record}\n')

    def run(target):
        (command,) = re.findall(r"^tools/molecule.*", dry_run(target), re.MULTILINE)
        subprocess.run(command.split(), cwd=CHECKOUT, check=True, capture_output=True)
        return sorted(record.read_text().split())

    return run


def test_make_molecule_all_runs_every_scenario(run_scenarios):
    assert run_scenarios("molecule-all") == SCENARIO_NAMES


def test_make_molecule_runs_the_documented_scenarios_of_ci(run_scenarios):
    page = (CHECKOUT / "docs/reference/molecule.md").read_text()
    (list_on_page,) = re.findall(r"`make molecule` runs the scenarios (.*?)\. CI", page)
    documented_names = re.findall(r"`(\w+)`", list_on_page)

    assert run_scenarios("molecule") == sorted(documented_names)
    ci_program = (CHECKOUT / ".ci/run").read_text()
    assert f'\nmake test SCENARIOS="{" ".join(documented_names)}"\n' in ci_program


def test_make_test_passes_the_scenarios_to_tools_test():
    commands = dry_run("test", "SCENARIOS=default single").splitlines()

    assert commands[-1] == "tools/test default single"


def test_the_documentation_lists_every_scenario():
    page = (CHECKOUT / "docs/reference/molecule.md").read_text()
    scenarios, _, _ = page.partition("| step |")

    assert re.findall(r"^\| `(\w+)` \|", scenarios, re.MULTILINE) == SCENARIO_NAMES
