# SPDX-License-Identifier: Apache-2.0
"""Services restart for new certificates, even if an earlier run was interrupted before its
handlers.
"""

import json
import os
import subprocess
import sys

import pytest
import yaml
from tests.roles.catalogue import ROOT

# Every daemon runs, since it was last restarted or, before that, since long; what is done is
# logged.
SYSTEMCTL = """\
#!{python}
import pathlib, sys, time
command, unit = sys.argv[1], sys.argv[-1].removesuffix(".service")
begun, changed = (pathlib.Path(__file__).with_name(unit + end) for end in (".begun", ".changed"))
since = [path.read_text() if path.exists() else "1" for path in (begun, changed)]
if command == "show":
    print("LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nNeedDaemonReload=no")
    moments = dict(zip(("InactiveExit", "ActiveEnter", "StateChange"), (since[0], since[0], since[1])))
    print(*(f"{{name}}TimestampMonotonic={{at}}" for name, at in moments.items()), sep="\\n")
else:
    for path in [begun, changed] if command == "restart" else [changed]:
        path.write_text(str(int(time.monotonic() * 1e6)))
    with pathlib.Path(__file__).with_name("log").open("a") as log:
        print(command, unit, file=log)
"""
PLAYS = {
    play.get("hosts"): play
    for play in yaml.safe_load((ROOT / "playbooks/certificates.yml").read_text())
    if "tasks" in play
}
TRAEFIK = {
    "vars_files": [str(ROOT / "roles/traefik/vars/main.yml")],
    "tasks": [{"ansible.builtin.import_tasks": str(ROOT / "roles/traefik/tasks/service.yml")}],
}  # fmt: skip


class Host:
    """This machine with a fake systemctl. The services read files of the test."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin/systemctl").write_text(SYSTEMCTL.format(python=sys.executable))
        (folder / "bin/systemctl").chmod(0o755)
        for name in ("ca.crt", "agent.crt", "agent.key", "tls.crt", "tls.key", "password"):
            (folder / name).write_text(name)

    def restarts(self, play, writes, **variables):
        """Run a play, then run it again after each of these files was written. An empty name writes
        no file.

        Return the restarts and reloads of each run.
        """
        here = {"hosts": "localhost", "connection": "local", "gather_facts": False}
        plays = [play | here]
        for name in writes:
            write = {
                "ansible.builtin.copy": {
                    "content": "another",
                    "dest": f"{self.folder}/{name}",
                    "mode": "0600",
                }
            }
            again = {"ansible.builtin.command": {"argv": ["systemctl", "again"]}}
            plays += [here | {"tasks": [write, again] if name else [again]}, play | here]
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
        runs = (self.folder / "bin/log").read_text().split("again again\n")
        return [run.splitlines() for run in runs]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_services_restart_for_a_certificate_of_an_earlier_run(host):
    folder = host.folder
    run = PLAYS["slurm_controller:storage:control_plane:grid"]
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

    assert host.restarts(run, ["", "agent.crt", "ca.crt"], **variables) == [
        ["restart gridstead-agent", "restart gridstead-ldap-connector"],
        [],
        ["restart gridstead-agent"],
        ["restart gridstead-ldap-connector"],
    ]


def test_sssd_restarts_for_ca_certificates_of_an_earlier_run(host):
    variables = {"sssd_ca_certificate": str(host.folder / "ca.crt")}

    assert host.restarts(PLAYS["sssd_clients"], [""], **variables) == [["restart sssd"], []]


def test_the_gateway_reloads_certificates_and_restarts_for_other_cas(host):
    same = {"changed": False}
    variables = {
        "__traefik_directory": str(host.folder),
        "__traefik_program": "/no/such/program",
        "traefik_ca_file": str(host.folder / "ca.crt"),
        "__traefik_configuration_result": {"static_changed": False},
        **{
            f"__traefik_{what}_result": same
            for what in ("certificate", "unit", "binary", "archive")
        },
    }

    assert host.restarts(TRAEFIK, ["", "tls.crt", "", "ca.crt"], **variables) == [
        ["restart traefik"],
        [],
        ["reload traefik"],
        [],
        ["restart traefik"],
    ]
