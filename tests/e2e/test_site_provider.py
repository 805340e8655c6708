# SPDX-License-Identifier: Apache-2.0
"""Tests of `gridstead provider verify` and `plan` on the lab's site. One test stops a daemon."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import CHECKOUT

CONTROLLER_OPTIONS = ("--limit", "controller", "--tags", "slurm_configure")


@pytest.fixture
def run_provider(tmp_path):
    """Return a function that runs `gridstead provider` and returns its exit code and output.

    The output is parsed from JSON.
    """

    def run(*arguments):
        argv = [
            str(Path(sys.executable).with_name("gridstead")),
            "provider",
            *map(str, arguments),
            "--json",
        ]
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        result = subprocess.run(
            argv, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
        )
        output = result.stdout or result.stderr[result.stderr.index("{") :]
        return result.returncode, json.loads(output)

    return run


@pytest.fixture
def make_inventory(tmp_path):
    """Return a function that copies the lab's inventory and adds settings of Slurm to the copy."""

    def with_settings(**settings):
        folder = tmp_path / "inventory"
        shutil.copytree(
            CHECKOUT / "inventory/lab",
            folder,
            ignore=shutil.ignore_patterns("00-wiring", "hosts.py"),
        )
        (folder / "hosts.py").symlink_to(CHECKOUT / "inventory/lab/hosts.py")
        (folder / "group_vars/all/00-wiring").symlink_to(CHECKOUT / "inventory/group_vars/all")
        lab_variables = yaml.safe_load((folder / "group_vars/all/lab.yml").read_text())
        config = lab_variables.get("slurm_config_site", {}) | settings
        (folder / "group_vars/all/zz-test.yml").write_text(
            yaml.safe_dump({"slurm_config_site": config})
        )
        return folder

    return with_settings


@pytest.mark.site
def test_verify_checks_every_host_and_finds_no_fault(run_provider, lab):
    exit_code, report = run_provider("verify")

    assert report["findings"] == []
    assert exit_code == 0
    assert sorted(report["hosts"]) == sorted(lab.hosts)


def test_verify_reports_a_stopped_daemon_and_no_other_fault(run_provider, lab):
    lab.run("compute2", "systemctl", "stop", "munge")
    try:
        exit_code, report = run_provider("verify", "--limit", "compute2")
    finally:
        lab.run("compute2", "systemctl", "start", "munge")

    assert exit_code == 78
    findings = report["findings"]
    assert {(finding["host"], finding["role"]) for finding in findings} == {("compute2", "munge")}
    checks = [finding["what"] for finding in findings]
    assert "munge.service runs, now and after a boot" in checks
    assert {finding["who"] for finding in findings} == {"operator"}


@pytest.mark.site
def test_plan_of_an_unchanged_site_is_empty(run_provider):
    exit_code, plan = run_provider("plan", *CONTROLLER_OPTIONS)

    assert exit_code == 0
    assert plan["changes"] == []
    assert plan["effects"] == []
    assert plan["drains"] == []


@pytest.mark.site
def test_plan_shows_the_reconfiguration_for_a_changed_slurm_parameter(
    run_provider, make_inventory, lab
):
    slurm_conf_before = lab.sh("controller", "cat /etc/slurm/slurm.conf")

    exit_code, plan = run_provider(
        "plan", "--inventory", make_inventory(KillWait=6), *CONTROLLER_OPTIONS
    )

    assert exit_code == 0
    (change,) = [
        change for change in plan["changes"] if "/etc/slurm/slurm.conf" in change["targets"]
    ]
    assert "+KillWait=6" in change["diff"].splitlines()
    assert "reconfigure" in {effect["verb"] for effect in plan["effects"]}
    assert plan["drains"] == []
    assert lab.sh("controller", "cat /etc/slurm/slurm.conf") == slurm_conf_before
