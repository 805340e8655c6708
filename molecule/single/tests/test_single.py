# SPDX-License-Identifier: Apache-2.0
"""Test a site on one host: all services run on this host, and a job is run and paid."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
UNITS = (
    "mariadb", "munge", "slurmdbd", "slurmctld", "slurmrestd", "slurmd", "sssd",
    "dirsrv@gridstead", "moosefs-master", "moosefs-chunkserver", "traefik", "gridstead-anvil",
    "gridstead-agent", "gridstead-job-definitions", "gridstead-logger",
    "gridstead-meta-scheduler", "gridstead-ldap-connector", "gridstead-supervisor",
    "gridstead-user-directories",
)  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_every_service_runs_and_is_enabled(get_host, unit):
    service = get_host("grid1").service(unit)

    assert service.is_running
    assert service.is_enabled


def test_no_unit_has_failed(get_host):
    assert get_host("grid1").check_output("systemctl list-units --failed --plain --no-legend") == ""


def test_slurmd_provides_the_slurm_configuration_and_sackd_does_not_run(get_host):
    assert not get_host("grid1").service("sackd").is_running
    is_idle = "sinfo --noheader --format=%N:%T | grep -qx grid1:idle"
    get_host("grid1").check_output(f"timeout 60 sh -c 'until {is_idle}; do sleep 1; done'")


def test_the_demo_runs_and_pays_a_job():
    environment = os.environ | {"GRIDSTEAD_LAB_NAME": "molecule-single"}

    result = subprocess.run(
        [sys.executable, "tools/demo.py"],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "demo: done" in result.stdout
