# SPDX-License-Identifier: Apache-2.0
"""Tests that a service restarts or reloads if a certificate is newer than the service's last start.

If a run is interrupted after it installed certificates, the next run restarts their services.
"""

import json
import os
import subprocess
import sys

import pytest
import yaml
from tests.roles.catalogue import ROOT
from tests.yaml_files import read_yaml

pytestmark = pytest.mark.slow

# A fake systemctl that logs the commands. All units are active. For each unit, the program stores
# the time of the last start in UNIT.start, and the time of the last start or reload in UNIT.change.
# A unit without these files started 1 us after the boot, so all files of the tests are newer.
SYSTEMCTL = """\
#!{python}
import pathlib, sys, time

folder = pathlib.Path(__file__).parent
command = sys.argv[1]
unit = sys.argv[-1].removesuffix(".service")
start = folder / f"{{unit}}.start"
change = folder / f"{{unit}}.change"
if command == "show":
    started_us = start.read_text() if start.exists() else "1"
    changed_us = change.read_text() if change.exists() else "1"
    print("LoadState=loaded")
    print("ActiveState=active")
    print("UnitFileState=enabled")
    print("NeedDaemonReload=no")
    print(f"InactiveExitTimestampMonotonic={{started_us}}")
    print(f"ActiveEnterTimestampMonotonic={{started_us}}")
    print(f"StateChangeTimestampMonotonic={{changed_us}}")
else:
    now_us = str(int(time.monotonic() * 1e6))
    change.write_text(now_us)
    if command == "restart":
        start.write_text(now_us)
    with (folder / "log").open("a") as log:
        print(command, unit, file=log)
"""
TRAEFIK_PLAY = {
    "vars_files": [str(ROOT / "roles/traefik/vars/main.yml")],
    "tasks": [{"ansible.builtin.import_tasks": str(ROOT / "roles/traefik/tasks/service.yml")}],
}


def certificates_play(hosts):
    """Return the play of certificates.yml for a host pattern."""
    plays = read_yaml(ROOT / "playbooks/certificates.yml")
    (play,) = (play for play in plays if play.get("hosts") == hosts and "tasks" in play)
    return play


class Host:
    """This machine with a fake systemctl. The services read files in the folder of the test."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin/systemctl").write_text(SYSTEMCTL.format(python=sys.executable))
        (folder / "bin/systemctl").chmod(0o755)
        for name in ("ca.crt", "agent.crt", "agent.key", "tls.crt", "tls.key", "password"):
            (folder / name).write_text(name)

    def run(self, play, changed_files, **variables):
        """Run a play, and run it again for each name in ``changed_files``.

        Before each repeated run, the file of the given name changes. If the name is empty, no file
        changes. Return the restarts and reloads of each run.
        """
        local = {"hosts": "localhost", "connection": "local", "gather_facts": False}
        plays = [play | local]
        for name in changed_files:
            plays += [local | {"tasks": self.tasks_between_runs(name)}, play | local]
        path = self.folder / "play.yml"
        path.write_text(yaml.safe_dump(plays))
        argv = [
            "ansible-playbook",
            "--inventory=localhost,",
            path,
            "--extra-vars",
            json.dumps(variables),
        ]
        argv += ["--extra-vars", f"ansible_python_interpreter={sys.executable}"]
        environment = os.environ | {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        result = subprocess.run(
            argv,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        runs = (self.folder / "bin/log").read_text().split("next-run next-run\n")
        return [run.splitlines() for run in runs]

    def tasks_between_runs(self, name):
        """Return tasks that change a file, and mark the start of the next run in the log."""
        tasks = [{"ansible.builtin.command": {"argv": ["systemctl", "next-run"]}}]
        if name:
            copy = {"content": "changed", "dest": f"{self.folder}/{name}", "mode": "0600"}
            tasks.append({"ansible.builtin.copy": copy})
        return tasks


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_services_restart_if_an_earlier_run_installed_a_certificate(host):
    folder = host.folder
    play = certificates_play("slurm_controller:storage:control_plane:grid")
    variables = {
        "control_plane_services": ["agent", "ldap-connector", "logger"],
        "control_plane_credentials": {
            "agent": {"tls.crt": f"{folder}/agent.crt", "tls.key": f"{folder}/agent.key"},
            "ldap-connector": {"directory.password": f"{folder}/password"},
        },
        "control_plane_settings": {
            "agent": {"tls": {"key_file": "/run/credentials/gridstead-agent.service/tls.key"}},
            "ldap-connector": {"directory": {"ca_file": f"{folder}/ca.crt"}},
            "logger": {"web_origins": []},
        },
        "control_plane_secrets": {},
        "control_plane_wallets": {},
    }

    # All files are newer than the services at the first run. The logger reads no certificate.
    assert host.run(play, ["", "agent.crt", "ca.crt"], **variables) == [
        ["restart gridstead-agent", "restart gridstead-ldap-connector"],
        [],
        ["restart gridstead-agent"],
        ["restart gridstead-ldap-connector"],
    ]


def test_sssd_restarts_if_an_earlier_run_installed_a_ca_certificate(host):
    variables = {"sssd_ca_certificate": str(host.folder / "ca.crt")}

    assert host.run(certificates_play("sssd_clients"), [""], **variables) == [["restart sssd"], []]


def test_a_new_sssd_conf_restarts_sssd_once(host):
    """A handler restarted SSSD a second time at the end of the play."""
    tasks = []
    for name in ("configure", "restart"):
        tasks += read_yaml(ROOT / f"roles/sssd/tasks/{name}.yml")
    handlers = ROOT / "roles/sssd/handlers/main.yml"
    play = {"tasks": tasks, "handlers": read_yaml(handlers) if handlers.exists() else []}
    tasks[0]["ansible.builtin.template"] = {
        "src": str(host.folder / "ca.crt"), "dest": str(host.folder / "sssd.conf"),
    }  # fmt: skip
    tasks[1]["gridstead.site.daemon"]["reads"] = [str(host.folder / "sssd.conf")]

    assert host.run(play, [""]) == [["restart sssd"], []]


def test_the_gateway_reloads_new_certificates_but_restarts_for_new_cas(host):
    unchanged = {"changed": False}
    variables = {
        "__traefik_directory": str(host.folder),
        "__traefik_program": "/no/such/program",
        "traefik_ca_file": str(host.folder / "ca.crt"),
        "__traefik_configuration_result": {"static_changed": False},
        "__traefik_certificate_result": unchanged,
        "__traefik_unit_result": unchanged,
        "__traefik_binary_result": unchanged,
        "__traefik_archive_result": unchanged,
    }

    assert host.run(TRAEFIK_PLAY, ["", "tls.crt", "", "ca.crt"], **variables) == [
        ["restart traefik"],
        [],
        ["reload traefik"],
        [],
        ["restart traefik"],
    ]
