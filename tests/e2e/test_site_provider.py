# SPDX-License-Identifier: Apache-2.0
"""`gridstead provider verify` and `plan` on the lab's site. Only one daemon of it stops, for a
moment.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import CHECKOUT

CONTROLLER = ("--limit", "controller", "--tags", "slurm_configure")


@pytest.fixture
def provider(tmp_path):
    """Runs `gridstead provider` with arguments; returns exit code and what it says as JSON."""

    def run(*arguments):
        argv = [
            str(Path(sys.executable).with_name("gridstead")),
            "provider",
            *map(str, arguments),
            "--json",
        ]
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        done = subprocess.run(
            argv, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, json.loads(done.stdout or done.stderr[done.stderr.index("{") :])

    return run


@pytest.fixture
def inventory(tmp_path):
    """Returns a copy of the lab's inventory with more settings of Slurm."""

    def changed(**settings):
        folder = tmp_path / "inventory"
        shutil.copytree(
            CHECKOUT / "inventory/lab",
            folder,
            ignore=shutil.ignore_patterns("00-wiring", "hosts.py"),
        )
        (folder / "hosts.py").symlink_to(CHECKOUT / "inventory/lab/hosts.py")
        (folder / "group_vars/all/00-wiring").symlink_to(CHECKOUT / "inventory/group_vars/all")
        known = yaml.safe_load((folder / "group_vars/all/lab.yml").read_text()).get(
            "slurm_config_site", {}
        )
        (folder / "group_vars/all/zz-test.yml").write_text(
            yaml.safe_dump({"slurm_config_site": known | settings})
        )
        return folder

    return changed


def test_a_site_that_works_is_green_and_everything_on_it_was_looked_at(provider, lab):
    code, report = provider("verify")

    assert (code, report["findings"]) == (0, [])
    assert sorted(report["hosts"]) == sorted(lab.hosts)


def test_a_stopped_daemon_is_named_and_nothing_else(provider, lab):
    lab.run("compute2", "systemctl", "stop", "munge")
    try:
        code, report = provider("verify", "--limit", "compute2")
    finally:
        lab.run("compute2", "systemctl", "start", "munge")

    assert code == 78
    found = {(one["host"], one["role"]) for one in report["findings"]}
    assert found == {("compute2", "munge")}
    assert "munge.service runs, now and after a boot" in [one["what"] for one in report["findings"]]
    assert {one["who"] for one in report["findings"]} == {"operator"}


def test_a_plan_of_a_site_as_it_must_be_is_empty(provider):
    code, plan = provider("plan", *CONTROLLER)

    assert (code, plan["changes"], plan["effects"], plan["drains"]) == (0, [], [], [])


def test_a_changed_parameter_of_the_scheduler_is_a_reconfiguration(provider, inventory, lab):
    before = lab.sh("controller", "cat /etc/slurm/slurm.conf")

    code, plan = provider("plan", "--inventory", inventory(KillWait=6), *CONTROLLER)

    assert code == 0
    (change,) = [one for one in plan["changes"] if "/etc/slurm/slurm.conf" in one["targets"]]
    assert "+KillWait=6" in change["diff"].splitlines()
    assert "reconfigure" in {effect["verb"] for effect in plan["effects"]}
    assert plan["drains"] == []
    assert lab.sh("controller", "cat /etc/slurm/slurm.conf") == before
