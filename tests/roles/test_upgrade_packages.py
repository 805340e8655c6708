# SPDX-License-Identifier: Apache-2.0
"""roles/slurm/files/upgrade-packages.sh with fake apt and dpkg."""

import os
import subprocess

import pytest
from tests.roles.catalogue import ROOT

SCRIPT = (ROOT / "roles/slurm/files/upgrade-packages.sh").read_text()
# A fake apt-get, apt-mark and dpkg. The fake apt-get also runs the policy file (policy-rc.d), as
# the maintainer scripts of packages do.
FAKE_PROGRAM = """#!/bin/bash
program="$(basename "$0")"
echo "$program $*" >>"$LOG"
case "$program $1" in
    "apt-mark showauto")
        echo libslurm42t64
        ;;
    "apt-get "*)
        "$POLICY"
        echo "policy $?" >>"$LOG"
        exit "$APT_EXIT_CODE"
        ;;
esac
"""


@pytest.fixture
def upgrade(tmp_path):
    """A function that runs the script and returns its exit code and the log of the programs.

    The policy file is tmp_path/policy.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("apt-get", "apt-mark", "dpkg"):
        (programs / name).write_text(FAKE_PROGRAM)
        (programs / name).chmod(0o755)
    log = tmp_path / "log"
    policy = tmp_path / "policy"

    def run(*packages, apt_exit_code=0):
        script = SCRIPT.replace("/usr/sbin/policy-rc.d", str(policy))
        argv = ["bash", "-c", script, "upgrade-packages.sh", *packages]
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "LOG": str(log),
            "POLICY": str(policy),
            "APT_EXIT_CODE": str(apt_exit_code),
        }
        result = subprocess.run(argv, check=False, env=environment)
        return result.returncode, log.read_text()

    return run


@pytest.mark.parametrize("apt_exit_code", [0, 100])
def test_packages_start_no_daemon_during_the_upgrade(upgrade, tmp_path, apt_exit_code):
    code, log = upgrade("slurmd=2", "libslurm42t64=2", apt_exit_code=apt_exit_code)

    assert code == apt_exit_code
    assert "policy 101" in log  # Exit code 101 of the policy file forbids the start.
    assert not (tmp_path / "policy").exists()


def test_the_policy_file_of_a_killed_run_is_removed(upgrade, tmp_path):
    upgrade("slurmd=2")
    policy = tmp_path / "policy"
    policy.write_text("#!/bin/sh\n# gridstead: an upgrade is under way\nexit 101\n")
    policy.chmod(0o755)

    upgrade("slurmd=2")

    assert not policy.exists()


def test_a_policy_file_of_the_site_is_retained(upgrade, tmp_path):
    policy = tmp_path / "policy"
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o755)

    _, log = upgrade("slurmd=2")

    assert "policy 104" in log
    assert policy.read_text() == "#!/bin/sh\nexit 104\n"


def test_automatic_packages_stay_automatic(upgrade):
    _, log = upgrade("slurmd=2", "libslurm42t64=2")

    lines = log.splitlines()
    assert lines[0] == "dpkg --configure --pending"
    assert lines[1] == "apt-mark showauto slurmd libslurm42t64"
    assert lines[-1] == "apt-mark auto libslurm42t64"


def test_without_packages_only_the_interrupted_upgrade_is_completed(upgrade):
    assert upgrade() == (0, "dpkg --configure --pending\n")
