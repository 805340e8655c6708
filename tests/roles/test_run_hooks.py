# SPDX-License-Identifier: Apache-2.0
"""The hooks of a site: the program that runs them on a node, and the files of role slurm.

The tests run a copy of gridstead-run-hooks with its own settings file and with stand-ins of the
commands that it runs. A UDP socket is the cluster agent.
"""

import fcntl
import json
import os
import re
import socket
import subprocess
import sys

import pytest
from ansible.template import trust_as_template
from tests.roles.catalogue import ROOT, roles
from tests.yaml_files import read_yaml

from gridstead.domain.slurm.hint import parse_report

FILE = ROOT / "roles/slurm/files/usr/local/sbin/gridstead-run-hooks"
ROLE = next(role for role in roles() if role.name == "slurm")
STAND_INS = {
    "logger": "exec cat >>log",
    "munge": "echo munge >>calls; exec cat",
    "scancel": 'echo "scancel $*" >>calls; exit "$(cat scancel-status)"',
    "scontrol": "echo first; echo second",
}
PRE_HOOK = {"what": "pre", "argv": ["true"]}


class Node:
    """A node with a copy of the program, stand-ins of its commands, and a cluster agent."""

    def __init__(self, folder, agent):
        self.folder = folder
        self.agent = agent
        self.environment = {
            "SLURM_JOB_ID": "42",
            "SLURM_JOB_UID": "200001",
            "SLURM_JOB_NODELIST": "first",
            "SLURMD_NODENAME": "first",
        }
        self.settings = {"pre": [], "post": [], "timeout_s": 20}
        self.settings["agent"] = {"address": "127.0.0.1", "port": agent.getsockname()[1]}
        (folder / "bin").mkdir()
        for name, text in STAND_INS.items():
            self.write_program(f"bin/{name}", f"cd '{folder}'; {text}")
        (folder / "scancel-status").write_text("0")
        text = FILE.read_text()
        text = text.replace("/etc/slurm", str(folder)).replace('PATH = "', f'PATH = "{folder}/bin:')
        (folder / "program").write_text(text)

    def write_program(self, name, text):
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def run(self, kind="pre", **settings):
        """Run the hooks and return the calls of commands of Slurm and MUNGE."""
        (self.folder / "gridstead-hooks.json").write_text(json.dumps(self.settings | settings))
        command = [sys.executable, "-I", str(self.folder / "program"), kind]
        subprocess.run(command, check=True, env=self.environment)
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []

    def receive(self):
        """Return the hint in the next report that the agent has received."""
        return parse_report(self.agent.recv(4096).decode())


@pytest.fixture
def node(tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(10)
        yield Node(tmp_path, agent)


def hook(*argv, what="check"):
    return {"what": what, "argv": argv}


def test_hooks_run_in_order_with_the_variables_of_the_job(node):
    node.write_program("gridstead-hooks/note", f'echo "$SLURM_JOB_ID" >>"{node.folder}/ran"')
    script = {"what": "note", "script": "files/note"}

    calls = node.run(pre=[hook("sh", "-c", f"echo first >'{node.folder}/ran'"), script])

    assert (node.folder / "ran").read_text() == "first\n42\n"
    assert calls == []


@pytest.mark.parametrize("argv", [["false"], ["sh", "-c", "kill -9 $$"], ["/missing"]])
def test_failed_pre_hook_is_reported_and_cancels_the_job(node, argv):
    calls = node.run(pre=[hook(*argv), hook("touch", str(node.folder / "ran"))])

    assert calls == ["munge", "scancel 42", "munge"]
    first, second = node.receive(), node.receive()
    assert first == second  # the agent stores equal reports once
    assert (first.event, first.slurm_job_id, first.uid) == ("pre_hook_failed", 42, 200_001)
    assert not (node.folder / "ran").exists()


def test_pre_hooks_that_take_too_long_together_are_killed_and_have_failed(node):
    lock, ended = node.folder / "lock", node.folder / "ended"
    slow = f"exec 9>'{lock}'; flock 9; trap '' TERM; sleep 60; touch '{ended}'"

    calls = node.run(pre=[hook("true"), hook("sh", "-c", slow)], timeout_s=1)

    assert "scancel 42" in calls
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the killed processes have released the lock
    assert not ended.exists()


def test_prolog_succeeds_if_slurmctld_does_not_cancel_the_job(node):
    (node.folder / "scancel-status").write_text("1")

    calls = node.run(pre=[hook("false")])

    assert calls == ["munge", "scancel 42", "scancel 42", "munge"]


def test_failed_post_hook_neither_cancels_nor_reports_the_job(node):
    assert node.run("post", post=[hook("false")]) == []


@pytest.mark.parametrize("kind", ["pre", "post"])
def test_hooks_run_only_on_the_first_node_of_a_job(node, kind):
    node.environment |= {"SLURM_JOB_NODELIST": "[first,second]"}
    ran = node.folder / "ran"
    hooks = {kind: [hook("touch", str(ran))]}

    node.environment["SLURMD_NODENAME"] = "second"
    node.run(kind, **hooks)
    assert not ran.exists()

    node.environment["SLURMD_NODENAME"] = "first"
    node.run(kind, **hooks)
    assert ran.exists()


@pytest.mark.parametrize("settings", ["", "{}", "[]", '{"pre": [{}], "timeout_s": 1}'])
def test_prolog_succeeds_with_invalid_settings(node, settings):
    (node.folder / "gridstead-hooks.json").write_text(settings)
    command = [sys.executable, "-I", str(node.folder / "program"), "pre"]

    assert subprocess.run(command, check=False, env=node.environment).returncode == 0


def render(site, name, **variables):
    template = ROLE.path / f"templates/etc/slurm/{name}.j2"
    return site.render(ROLE, template, site.hosts_of(ROLE)[0], **variables)


def slurm_settings(site, **variables):
    return dict(re.findall(r"^(\w+)=(.*)$", render(site, "slurm.conf", **variables), re.MULTILINE))


def test_a_site_without_hooks_has_no_trace_of_hooks(site):
    settings = slurm_settings(site)

    assert "BatchStartTimeout" not in settings
    assert settings["PrologEpilogTimeout"] == "60"
    assert "hook" not in render(site, "gridstead-prepare-job")
    assert "hook" not in render(site, "gridstead-forget-job")


@pytest.mark.parametrize(("timeout_s", "prolog_timeout"), [(1, "60"), (30, "60"), (300, "330")])
def test_slurm_waits_longer_for_the_prolog_than_hooks_may_take(site, timeout_s, prolog_timeout):
    settings = slurm_settings(site, slurm_pre_hooks=[PRE_HOOK], slurm_hook_timeout_s=timeout_s)

    assert settings["Prolog"] == "gridstead-prepare-job"
    assert settings["PrologEpilogTimeout"] == prolog_timeout
    assert settings["BatchStartTimeout"] == str(timeout_s + 30)


@pytest.mark.parametrize(
    ("variables", "timeout_s"),
    [
        ({}, None),
        ({"slurm_post_hooks": [PRE_HOOK]}, None),
        ({"slurm_pre_hooks": [PRE_HOOK]}, 30),
        ({"slurm_pre_hooks": [PRE_HOOK], "slurm_hook_timeout_s": 7}, 7),
    ],
)
def test_the_supervisor_knows_the_timeout_of_pre_hooks(site, variables, timeout_s):
    role = next(role for role in roles() if role.name == "control_plane")
    templar = site.templar(role, site.inventory.get_hosts("control_plane")[0].name, **variables)

    settings = templar.template(trust_as_template("{{ control_plane_settings.supervisor }}"))

    assert settings["hook_timeout_s"] == timeout_s


def test_the_prolog_runs_pre_hooks(site):
    text = render(site, "gridstead-prepare-job", slurm_pre_hooks=[PRE_HOOK])

    assert text.endswith("/usr/local/sbin/gridstead-run-hooks pre\nexit 0\n")


def test_the_epilog_runs_post_hooks(site):
    text = render(site, "gridstead-forget-job", slurm_post_hooks=[PRE_HOOK])

    assert text.endswith("/usr/local/sbin/gridstead-run-hooks post\nexit 0\n")


def accepts(site, **variables):
    """Return whether all assertions of tasks/validate.yml about hooks accept the variables."""
    variables = {"slurm_agent_address": "192.0.2.1", "slurm_config": {}} | variables
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0], **variables)
    tasks = read_yaml(ROLE.path / "tasks/validate.yml")
    conditions = []
    for task in tasks:
        if "hook" in str(task):
            that = task["ansible.builtin.assert"]["that"]
            conditions += [that] if isinstance(that, str) else that
    return all(templar.evaluate_conditional(trust_as_template(text)) for text in conditions)


@pytest.mark.parametrize(
    "hook",
    [
        {},
        {"argv": None},
        {"argv": []},
        {"argv": [""]},
        {"argv": "true"},
        {"argv": ["true"], "script": str(FILE)},
        {"script": None},
        {"script": ""},
        {"script": "/missing"},
        {"script": str(FILE.parent)},
        {"script": os.path.relpath(FILE)},
    ],
)
def test_a_hook_that_would_cancel_every_job_is_refused(site, hook):
    assert accepts(site, slurm_pre_hooks=[PRE_HOOK, {"what": "script", "script": str(FILE)}])
    assert not accepts(site, slurm_pre_hooks=[{"what": "x"} | hook])


@pytest.mark.parametrize(
    "variables",
    [
        {"slurm_agent_address": "agent.site.example"},
        {"slurm_agent_port": 0},
        {"slurm_agent_port": 65_536},
        {"slurm_config": {"PrologEpilogTimeout": 20}},
        {"slurm_config": {"Prolog": "/etc/own-prolog"}},
    ],
)
def test_settings_with_which_hooks_do_not_run_or_do_not_report_are_refused(site, variables):
    assert not accepts(site, slurm_pre_hooks=[PRE_HOOK], **variables)


def test_a_site_without_hooks_may_have_its_own_prolog(site):
    assert accepts(site, slurm_config={"Prolog": "/etc/own-prolog"})
