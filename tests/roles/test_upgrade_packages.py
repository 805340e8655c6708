# SPDX-License-Identifier: Apache-2.0
"""roles/slurm/files/upgrade-packages.sh with a fake apt: the state after success and failure."""

import os
import subprocess

import pytest
from tests.roles.catalogue import ROOT

SCRIPT = (ROOT / "roles/slurm/files/upgrade-packages.sh").read_text()
DOUBLE = """#!/bin/bash
echo "$(basename "$0") $*" >>"$SAID"
case "$(basename "$0") $1" in
    "apt-mark showauto") echo libslurm42t64 ;;
    "apt-get "*) "$POLICY"; echo "policy $?" >>"$SAID"; exit "$APT" ;;
esac
"""


@pytest.fixture
def upgrade(tmp_path):
    """A function that runs the script with a result of apt and returns exit code and output. The
    policy file is tmp_path/policy.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("apt-get", "apt-mark", "dpkg"):
        (programs / name).write_text(DOUBLE)
        (programs / name).chmod(0o755)
    said, policy = tmp_path / "said", tmp_path / "policy"
    doubled = {"PATH": f"{programs}:{os.environ['PATH']}", "SAID": str(said), "POLICY": str(policy)}

    def run(*packages, apt=0):
        text = SCRIPT.replace("/usr/sbin/policy-rc.d", str(policy))
        argv = ["bash", "-c", text, "upgrade-packages.sh", *packages]
        result = subprocess.run(argv, check=False, env=os.environ | doubled | {"APT": str(apt)})
        return result.returncode, said.read_text()

    return run


@pytest.mark.parametrize("apt", [0, 100])
def test_packages_start_no_daemon_during_the_upgrade(upgrade, tmp_path, apt):
    code, said = upgrade("slurmd=2", "libslurm42t64=2", apt=apt)

    assert code == apt
    assert "policy 101" in said
    assert not (tmp_path / "policy").exists()


def test_the_policy_file_of_a_killed_run_is_removed(upgrade, tmp_path):
    upgrade("slurmd=2")
    left = tmp_path / "policy"
    left.write_text("#!/bin/sh\n# gridstead: an upgrade is under way\nexit 101\n")
    left.chmod(0o755)

    upgrade("slurmd=2")

    assert not left.exists()


def test_a_policy_file_of_the_site_is_retained(upgrade, tmp_path):
    policy = tmp_path / "policy"
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o755)

    _, said = upgrade("slurmd=2")

    assert "policy 104" in said
    assert policy.read_text() == "#!/bin/sh\nexit 104\n"


def test_automatic_packages_stay_automatic(upgrade):
    _, said = upgrade("slurmd=2", "libslurm42t64=2")

    lines = said.splitlines()
    assert lines[0] == "dpkg --configure --pending"
    assert lines[1] == "apt-mark showauto slurmd libslurm42t64"
    assert lines[-1] == "apt-mark auto libslurm42t64"


def test_without_packages_only_the_interrupted_upgrade_is_completed(upgrade):
    assert upgrade() == (0, "dpkg --configure --pending\n")
