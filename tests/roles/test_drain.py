# SPDX-License-Identifier: Apache-2.0
"""Tests of playbooks/drain.yml in Ansible, with fake Slurm programs."""

import os
import re
import shlex
import subprocess
from itertools import pairwise

import pytest
import yaml
from ansible.parsing.splitter import parse_kv
from tests.roles.catalogue import ROOT

pytestmark = pytest.mark.slow

PLAYBOOKS = ROOT / "playbooks"
JOB = "12 of ada on gpu1 until 2026-01-02T03:04:05"


class Cluster:
    """A fake controller on this machine, with one node, gpu1. Pauses of drain.yml take no time."""

    def __init__(self, folder):
        self.folder = folder
        self.set_script("scontrol", '[ "$1" != show ] || echo gpu1')
        self.set_script("sinfo", "echo 'gpu1|idle|none'")
        local = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        }
        hosts = {"slurm_controller": {"hosts": {"ash": local}}}
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": hosts}}))
        files = [PLAYBOOKS / "drain.yml", PLAYBOOKS / "refuse_limit.yml"]
        files += (PLAYBOOKS / "tasks").glob("*.yml")
        for path in files:
            copy = folder / path.relative_to(PLAYBOOKS)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(re.sub(r"pause: .*", "pause: 0", path.read_text()))

    def set_script(self, program, script):
        """Replace a Slurm program by a shell script."""
        path = self.folder / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def add_job(self, queries):
        """Add a job that ends when squeue has been called ``queries`` times."""
        count = f"{self.folder}/queries"
        print_job = f'[ $(wc -l <{count}) -gt {queries} ] || echo "{JOB}"'
        self.set_script("squeue", f"echo >>{count}; {print_job}")

    def query_count(self):
        """Return the number of calls of squeue."""
        return (self.folder / "queries").read_text().count("\n")

    def drain(self, *words):
        """Run the playbook and return exit code and output."""
        environment = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}"}
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


def test_the_wait_lists_the_running_jobs_and_ends_with_the_last_job(cluster):
    cluster.add_job(queries=260)

    code, output = cluster.drain("-e", "nodes=gpu1 reason=disks wait_s=86400")

    # 260 queries are more than Ansible's limit of about 246 nested inclusions of a file. This run
    # succeeds only if the wait does not nest.
    assert code == 0, output[-2000:]
    assert output.count(f"1 jobs: {JOB}") == 260
    assert cluster.query_count() == 261


# The playbook calls squeue at the start, every 30 s, and at the end of the wait.
@pytest.mark.parametrize(("wait_s", "queries"), [(1, 2), (31, 3)])
def test_jobs_that_exceed_the_wait_are_named_and_nodes_stay_drained(cluster, wait_s, queries):
    cluster.add_job(queries=1000)

    code, output = cluster.drain("-e", f"nodes=gpu1 reason=disks wait_s={wait_s}")

    assert code == 2
    message = f"1 jobs still run after {wait_s} s: {JOB}. The nodes stay drained."
    assert message in " ".join(output.split())
    assert cluster.query_count() == queries


def test_a_failing_squeue_ends_the_wait(cluster):
    cluster.set_script(
        "squeue",
        f"echo >>{cluster.folder}/queries; echo 'Unable to contact slurm controller' >&2; exit 1",
    )

    code, output = cluster.drain("-e", "nodes=gpu1 reason=disks")

    assert code == 2
    assert "Unable to contact slurm controller" in output
    assert cluster.query_count() == 1


@pytest.mark.parametrize(
    ("state", "nodes", "report"),
    [
        ("drain", "gpu1,gpu2", "Would drain: gpu1"),
        ("drain", "gpu2", "Would drain: no node"),
        ("resume", "gpu1,gpu2", "Would resume: gpu2"),
        ("resume", "gpu1", "Would resume: no node"),
    ],
)
def test_check_mode_reports_nodes_but_does_not_change_them(state, nodes, report, cluster):
    # The script prints the nodes of "scontrol show", and notes that another command was called.
    cluster.set_script(
        "scontrol", f'[ "$1" = show ] && echo "$3" | tr , "\\n" || touch {cluster.folder}/updated'
    )
    cluster.set_script("sinfo", "printf '%s\\n' 'gpu1|idle|none' 'gpu2|idle+drain|disks'")

    code, output = cluster.drain("--check", "-e", f"nodes={nodes} reason=disks state={state}")

    assert code == 0, output[-2000:]
    assert f"{report}\n" in output.replace("'", "")
    # In check mode, Ansible reports a change, except if the report contains no node.
    is_without_change = "changed=0" in output
    assert is_without_change == report.endswith("no node")
    assert not (cluster.folder / "updated").exists()


def test_words_that_belong_to_no_variable_are_refused(cluster):
    """The shell removes the quotes of -e reason='new disks', so that Ansible assigns only the first
    word to reason.
    """
    code, output = cluster.drain("-e", "nodes=gpu1", "-e", "reason=new disks")

    assert code == 2
    assert 'reason "new"' in output
    assert '"disks" belongs to no variable' in " ".join(output.split())


def test_a_wait_time_that_is_not_a_number_is_refused(cluster):
    cluster.add_job(queries=1000)

    code, output = cluster.drain("-e", "nodes=gpu1 reason=disks wait_s=1h")

    assert code == 2
    assert 'wait_s "1h"' in " ".join(output.split())
    assert "wait_s a number of seconds" in " ".join(output.split())


def test_documented_extra_vars_are_parsed_correctly():
    pages = [
        *ROOT.glob("docs/**/*.md"),
        *PLAYBOOKS.glob("*.yml"),
        ROOT / "README.md",
        ROOT / "inventory/README.md",
    ]
    # A command ends at a backquote, at the spaces before a comment, or at the end of the line.
    command = re.compile(r"ansible-playbook .*?(?=`|   |$)", re.MULTILINE)

    reasons = []
    for page in pages:
        for command_line in command.findall(page.read_text()):
            for variables in extra_vars(command_line):
                assert "_raw_params" not in variables
                if "reason" in variables:
                    reasons.append(variables["reason"])
    assert reasons == ["new disks"] * 2  # Two documented commands set a reason.


def extra_vars(command_line):
    """Return, for each option -e of a command, the variables that Ansible parses from it."""
    if " -e " not in command_line:
        return []
    words = shlex.split(command_line)
    return [parse_kv(value) for option, value in pairwise(words) if option == "-e"]


def test_no_file_of_tasks_includes_itself():
    """Each repetition by inclusion adds a level of nesting. Ansible fails at about 246 levels."""
    files = [
        *PLAYBOOKS.glob("tasks/*.yml"),
        *ROOT.glob("roles/*/tasks/**/*.yml"),
        *ROOT.glob("molecule/**/*.yml"),
    ]
    including = re.compile(r"(?:include|import)_tasks:\s+(?:file:\s+)?(\S+)")

    for path in files:
        included_names = [name.rpartition("/")[2] for name in including.findall(path.read_text())]
        assert path.name not in included_names
