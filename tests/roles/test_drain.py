# SPDX-License-Identifier: Apache-2.0
"""playbooks/drain.yml in Ansible, with fake Slurm programs."""

import os
import re
import shlex
import subprocess
from itertools import pairwise

import pytest
import yaml
from ansible.parsing.splitter import parse_kv
from tests.roles.catalogue import ROOT

PLAYBOOKS = ROOT / "playbooks"
JOB = "12 of ada on gpu1 until 2026-01-02T03:04:05"


class Cluster:
    """A controller on this machine with one node, gpu1. A pause of 30 s takes no time."""

    def __init__(self, folder):
        self.folder = folder
        self.says("scontrol", '[ "$1" != show ] || echo gpu1')
        self.says("sinfo", "echo 'gpu1|idle|none'")
        here = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        }
        hosts = {"slurm_controller": {"hosts": {"ash": here}}}
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": hosts}}))
        for path in (
            PLAYBOOKS / "drain.yml",
            PLAYBOOKS / "refuse_limit.yml",
            *(PLAYBOOKS / "tasks").glob("*.yml"),
        ):
            copy = folder / path.relative_to(PLAYBOOKS)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(re.sub(r"pause: .*", "pause: 0", path.read_text()))

    def says(self, program, script):
        """Set the action of a Slurm program."""
        path = self.folder / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def has_a_job(self, looks):
        """Add a job to the node for this number of queries."""
        report = f'[ $(wc -l <{self.folder}/looks) -gt {looks} ] || echo "{JOB}"'
        self.says("squeue", f"echo >>{self.folder}/looks; {report}")

    def looks(self):
        """Return the number of queries."""
        return (self.folder / "looks").read_text().count("\n")

    def drain(self, *words):
        """Run the playbook and return exit code and output."""
        environment = os.environ | {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
        }
        command = [
            "ansible-playbook",
            f"--inventory={self.folder / 'hosts.yml'}",
            self.folder / "drain.yml",
            *words,
        ]
        result = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        return result.returncode, result.stdout + result.stderr


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


def test_a_long_wait_ends_with_the_jobs_and_lists_the_rest_every_30_s(
    cluster,
):
    cluster.has_a_job(looks=260)

    code, said = cluster.drain("-e", "nodes=gpu1 reason=disks wait_s=86400")

    assert code == 0, said[-2000:]
    assert said.count(f"1 jobs: {JOB}") == 260
    assert cluster.looks() == 261


@pytest.mark.parametrize(("wait_s", "looks"), [(1, 2), (31, 3)])
def test_jobs_that_exceed_the_wait_are_named_and_nodes_stay_drained(cluster, wait_s, looks):
    cluster.has_a_job(looks=1000)

    code, said = cluster.drain("-e", f"nodes=gpu1 reason=disks wait_s={wait_s}")

    assert code == 2
    assert f"1 jobs still run after {wait_s} s: {JOB}. The nodes stay drained." in " ".join(
        said.split()
    )
    assert cluster.looks() == looks


def test_a_failing_squeue_ends_the_wait(cluster):
    cluster.says(
        "squeue",
        f"echo >>{cluster.folder}/looks; echo 'Unable to contact slurm controller' >&2; exit 1",
    )

    code, said = cluster.drain("-e", "nodes=gpu1 reason=disks")

    assert code == 2
    assert "Unable to contact slurm controller" in said
    assert cluster.looks() == 1


@pytest.mark.parametrize(
    ("state", "nodes", "report"),
    [
        ("drain", "gpu1,gpu2", "Would drain: gpu1"),
        ("drain", "gpu2", "Would drain: no node"),
        ("resume", "gpu1,gpu2", "Would resume: gpu2"),
        ("resume", "gpu1", "Would resume: no node"),
    ],
)
def test_check_mode_reports_nodes_and_changes_none(state, nodes, report, cluster):
    cluster.says(
        "scontrol", f'[ "$1" = show ] && echo "$3" | tr , "\\n" || touch {cluster.folder}/updated'
    )
    cluster.says("sinfo", "printf '%s\\n' 'gpu1|idle|none' 'gpu2|idle+drain|disks'")

    code, said = cluster.drain("--check", "-e", f"nodes={nodes} reason=disks state={state}")

    assert code == 0, said[-2000:]
    assert f"{report}\n" in said.replace("'", "")
    assert ("changed=0" in said) is report.endswith("no node")
    assert not (cluster.folder / "updated").exists()


def test_arguments_without_a_variable_are_refused(cluster):
    """The shell removes the quotes of -e reason='new disks', so that Ansible assigns only the first
    word to reason.
    """
    code, said = cluster.drain("-e", "nodes=gpu1", "-e", "reason=new disks")

    assert code == 2
    assert 'reason "new"' in said
    assert '"disks" belongs to no variable' in " ".join(said.split())


def test_a_wait_time_that_is_not_a_number_is_refused(cluster):
    cluster.has_a_job(looks=1000)

    code, said = cluster.drain("-e", "nodes=gpu1 reason=disks wait_s=1h")

    assert code == 2
    assert 'wait_s "1h"' in " ".join(said.split())
    assert "wait_s a number of seconds" in " ".join(said.split())


def test_documented_extra_vars_are_parsed_correctly():
    pages = [
        *ROOT.glob("docs/**/*.md"),
        *PLAYBOOKS.glob("*.yml"),
        ROOT / "README.md",
        ROOT / "inventory/README.md",
    ]
    command = re.compile(r"ansible-playbook .*?(?=`|   |$)", re.MULTILINE)
    commands = [
        command_line
        for page in pages
        for command_line in command.findall(page.read_text())
        if " -e " in command_line
    ]
    words = [pair for command_line in commands for pair in pairwise(shlex.split(command_line))]
    said = [parse_kv(given) for option, given in words if option == "-e"]

    assert [item for item in said if "_raw_params" in item] == []
    assert [item["reason"] for item in said if "reason" in item] == ["new disks"] * 2


def test_no_file_of_tasks_includes_itself():
    """Ansible nests an included file in the including file. The limit is about 246 levels."""
    files = [
        *PLAYBOOKS.glob("tasks/*.yml"),
        *ROOT.glob("roles/*/tasks/**/*.yml"),
        *ROOT.glob("molecule/**/*.yml"),
    ]
    including = re.compile(r"(?:include|import)_tasks:\s+(?:file:\s+)?(\S+)")

    assert [
        path
        for path in files
        if path.name in [name.rpartition("/")[2] for name in including.findall(path.read_text())]
    ] == []
