# SPDX-License-Identifier: Apache-2.0
"""Role base does not lock Ansible out of a host: it tests a login by key before it changes sshd.

The tests use a fake ssh, which runs the commands on this machine instead of the host.
"""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.roles.catalogue import ROOT, Role

pytestmark = pytest.mark.slow

ROLE = Role("base")
# A fake ssh that runs the command on this machine. If KEYS=no, a login needs a password.
FAKE_SSH = """\
#!/bin/sh
echo "$*" >>"$0.calls"
case $*:$KEYS in
*PasswordAuthentication=no*:no)
    echo 'remote: Permission denied (publickey,password).' >&2
    exit 255
    ;;
esac
while :; do case $1 in -[olpi]) shift 2 ;; -*) shift ;; *) break ;; esac done
shift
exec sh -c "$*"
"""
PLAY = {
    "hosts": "remote",
    "gather_subset": ["min"],
    "vars_files": [str(ROLE.path / "defaults/main.yml"), str(ROLE.path / "vars/main.yml")],
    "handlers": [
        {
            "name": "Record that all services have the new files",
            "ansible.builtin.file": {"path": "{{ __base_change_marker }}", "state": "absent"},
            "listen": "base_files_changed",
        }
    ],
}


class Host:
    """This machine as the host of role base. The role writes its files to the test's folder."""

    def __init__(self, folder):
        self.ssh = folder / "ssh"
        self.sshd_settings = folder / "sshd.conf"
        self.hosts_file = folder / "hosts"
        self.ssh.write_text(FAKE_SSH)
        self.ssh.chmod(stat.S_IRWXU)
        self.password = folder / "password"
        self.password.write_text("secret\n")
        self.folder = folder

    def run(self, task_file, keys="yes", **variables):
        """Run a task file of the role and return Ansible's exit code and output.

        ``keys`` is "no" for a host that accepts no login by key.
        """
        defaults = {
            "__base_files": [
                {"path": str(self.hosts_file), "content": "x\n"},
                {"path": str(self.sshd_settings), "content": "x\n"},
            ],
            "__base_change_marker": str(self.folder / "unsettled"),
            "__base_sshd_settings": str(self.sshd_settings),
            "ansible_ssh_executable": str(self.ssh),
            "ansible_python_interpreter": sys.executable,
            "base_hostname": "{{ ansible_facts['hostname'] }}",
            "base_hosts": [{"name": "{{ base_hostname }}", "address": "192.0.2.1"}],
        }
        tasks = [{"import_tasks": str(ROLE.path / "tasks" / task_file)}]
        playbook = self.folder / "play.yml"
        playbook.write_text(yaml.safe_dump([PLAY | {"tasks": tasks}]))
        inventory = self.folder / "site.ini"
        inventory.write_text("remote ansible_ssh_args='-o ProxyJump=gateway'\n")
        argv = [
            "ansible-playbook",
            f"--inventory={inventory}",
            f"--connection-password-file={self.password}",
            "--extra-vars",
            json.dumps(defaults | variables),
            str(playbook),
        ]
        result = subprocess.run(
            argv,
            cwd=ROOT,
            env=os.environ | {"KEYS": keys},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return result.returncode, " ".join(result.stdout.split()) + result.stderr

    def ssh_calls(self):
        """Return the arguments of each call of ssh."""
        return Path(f"{self.ssh}.calls").read_text().splitlines()

    def key_login_count(self):
        """Return the number of login tests: the calls that forbid ssh to use a password."""
        return "\n".join(self.ssh_calls()).count(" PasswordAuthentication=no ")


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_no_file_changes_if_ansible_needs_a_password_to_log_in(host):
    """Option -k sets no variable, so the role detects its password only with a test login."""
    code, output = host.run("configure.yml", keys="no")

    assert code != 0
    assert "Ansible cannot log in without a password" in output
    assert "set base_ssh_passwords: true" in output
    assert not host.sshd_settings.exists()
    assert not host.hosts_file.exists()


def test_the_login_is_tested_in_the_first_run_and_not_in_the_second(host):
    code, output = host.run("configure.yml")
    assert code == 0, output
    assert host.key_login_count() == 1
    assert host.sshd_settings.read_text() == "x\n"
    assert host.hosts_file.read_text() == "x\n"
    calls = host.ssh_calls()
    assert "-o ControlMaster=no -o ControlPath=none" in calls[-1]
    # The login test also uses the ssh options of the inventory.
    assert all("-o ProxyJump=gateway" in call for call in calls)

    code, output = host.run("configure.yml")
    assert code == 0, output
    assert host.key_login_count() == 1
    assert "changed=0" in output


def test_the_login_is_not_tested_if_the_site_allows_ssh_passwords(host):
    code, output = host.run("configure.yml", keys="no", base_ssh_passwords=True)

    assert code == 0, output
    assert host.key_login_count() == 0
    assert host.sshd_settings.exists()


def test_an_ssh_password_in_the_inventory_is_refused(host):
    code, output = host.run("validate.yml", ansible_ssh_password="secret")

    assert code != 0
    assert "only if base_ssh_passwords is true" in output
