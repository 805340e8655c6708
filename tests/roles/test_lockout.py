# SPDX-License-Identifier: Apache-2.0
"""Role base never removes the SSH access of Ansible. The tests use a fake ssh on this machine."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.roles.catalogue import ROOT, Role

ROLE = Role("base")
# Takes a password where it is said that one is taken, and runs here what it is asked to run there.
SSH = """\
#!/bin/sh
echo "$*" >>"$0.calls"
case $*:$KEYS in
*PasswordAuthentication=no*:no) echo 'there: Permission denied (publickey,password).' >&2; exit 255 ;;
esac
while :; do case $1 in -[olpi]) shift 2 ;; -*) shift ;; *) break ;; esac done
shift
exec sh -c "$*"
"""
PLAY = {
    "hosts": "there",
    "gather_subset": ["min"],
    "vars_files": [str(ROLE.path / "defaults/main.yml"), str(ROLE.path / "vars/main.yml")],
    "handlers": [
        {
            "name": "Keep in mind that everybody knows the new files",
            "ansible.builtin.file": {"path": "{{ __base_unsettled }}", "state": "absent"},
            "listen": "base_files_changed",
        }
    ],
}


class There:
    """A host that is this machine, with other paths for the role's files."""

    def __init__(self, folder):
        self.ssh, self.sshd, self.hosts = folder / "ssh", folder / "sshd.conf", folder / "hosts"
        self.ssh.write_text(SSH)
        self.ssh.chmod(stat.S_IRWXU)
        self.password = folder / "password"
        self.password.write_text("secret\n")
        self.folder = folder

    def run(self, tasks, keys="yes", **variables):
        files = [
            {"path": str(self.hosts), "content": "x\n"},
            {"path": str(self.sshd), "content": "x\n"},
        ]
        variables = {
            "__base_files": files, "__base_unsettled": str(self.folder / "unsettled"),
            "__base_sshd_settings": str(self.sshd), "ansible_ssh_executable": str(self.ssh),
            "ansible_python_interpreter": sys.executable, "base_hostname": "{{ ansible_facts['hostname'] }}",
            "base_hosts": [{"name": "{{ base_hostname }}", "address": "192.0.2.1"}],
        } | variables  # fmt: skip
        play = self.folder / "play.yml"
        play.write_text(
            yaml.safe_dump([PLAY | {"tasks": [{"import_tasks": str(ROLE.path / "tasks" / tasks)}]}])
        )
        site = self.folder / "site.ini"
        site.write_text("there ansible_ssh_args='-o ProxyJump=door'\n")
        argv = [
            "ansible-playbook",
            f"--inventory={site}",
            "--extra-vars",
            json.dumps(variables),
            str(play),
        ]
        argv.append(f"--connection-password-file={self.password}")
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

    def tries(self):
        """Return the number of logins without a password."""
        return Path(f"{self.ssh}.calls").read_text().count(" PasswordAuthentication=no ")


@pytest.fixture
def there(tmp_path):
    return There(tmp_path)


def test_no_file_changes_if_only_a_password_gives_access(there):
    """Ansible does not store a prompted password (-k) in a variable."""
    code, output = there.run("configure.yml", keys="no")

    assert code != 0
    assert "Ansible cannot log in without one" in output
    assert "set base_ssh_passwords: true" in output
    assert not there.sshd.exists()
    assert not there.hosts.exists()


def test_the_login_is_tested_once_and_not_in_a_second_run(there):
    code, output = there.run("configure.yml")
    assert (code, there.tries()) == (0, 1), output
    assert there.sshd.read_text() == there.hosts.read_text() == "x\n"
    calls = Path(f"{there.ssh}.calls").read_text().splitlines()
    assert "-o ControlMaster=no -o ControlPath=none" in calls[-1]
    assert [
        call for call in calls if "-o ProxyJump=door" not in call
    ] == []  # the site's own way to the host

    code, output = there.run("configure.yml")
    assert (code, there.tries()) == (0, 1), output
    assert "changed=0" in output


def test_a_site_with_passwords_needs_no_key(there):
    code, output = there.run("configure.yml", keys="no", base_ssh_passwords=True)

    assert (code, there.tries()) == (0, 0), output
    assert there.sshd.exists()


def test_an_ssh_password_in_the_inventory_is_refused(there):
    code, output = there.run("validate.yml", ansible_ssh_password="secret")

    assert code != 0
    assert "only if base_ssh_passwords is true" in output
