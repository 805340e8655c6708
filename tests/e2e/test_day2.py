# SPDX-License-Identifier: Apache-2.0
"""A cluster's days after the first: what changes of Slurm's configuration cost, a node that comes,
nodes that drain.

A job runs through all the changes. The new node is a host that the lab gets for it and loses again.
"""

import json
import os
import re
import subprocess
import time

import pytest
from tests.e2e.conftest import CHECKOUT, wait_until
from tests.e2e.slurm_jobs import SlurmJobs, operator

NEW = "compute3"
OLD = ("compute1", "compute2")
SITE = {
    "DefMemPerCPU": 32,
    "HealthCheckInterval": 10,
    "SlurmdParameters": "config_overrides",
}  # what the lab says anyway
LONG_GONE = 99_999_999  # a job that was never there
HOSTNAME = {"run": {"command": "hostname", "resources": {"tasks": 2}}}
# The controller's own part of the role, by which it is told.
CONTROLLER = """\
- hosts: slurm_controller
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: slurm}
      vars: {slurm_components: [controller]}
"""
# What site.yml does where add_node.yml has told of the new node; the other compute hosts have not
# heard of it.
FORGET = """\
- hosts: all:!slurm_compute
  gather_subset: [min]
  tasks:
    - ansible.builtin.import_role: {name: base, tasks_from: configure}
- hosts: storage
  gather_facts: false
  roles: [shared_storage]
- hosts: slurm_controller
  gather_facts: false
  roles:
    - role: control_plane
    - {role: slurm, slurm_components: [controller]}
"""


def play(*words, check=True, **variables):
    """Run a playbook and return what it says; its recap is the last part."""
    argv = ["ansible-playbook", *words, "-e", json.dumps(variables)]
    done = subprocess.run(
        argv, cwd=CHECKOUT, check=False, capture_output=True, text=True, env=os.environ
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def configure(tmp_path_factory):
    """Have the controller told of these settings, or of those of the site again."""
    file = tmp_path_factory.mktemp("play") / "controller.yml"
    file.write_text(CONTROLLER)
    return lambda **more: play(str(file), "--tags", "slurm_configure", **more)


def hosts_of(said):
    """Return the hosts on which a playbook had tasks."""
    return set(re.findall(r"^(\S+) +: ok=", said.partition("PLAY RECAP")[2], re.MULTILINE))


class Daemons:
    """Slurm's daemons of the cluster."""

    def __init__(self, lab):
        self.lab = lab

    def starts(self):
        """Return which start of its unit each daemon is of. A reconfigure is no start."""
        units = [
            ("controller", "slurmctld"),
            *((host, "slurmd") for host in OLD),
            ("login", "sackd"),
        ]
        show = "systemctl show --property InvocationID --value"
        return {
            unit + "@" + host: self.lab.sh(host, f"{show} {unit}").strip() for host, unit in units
        }

    def setting(self, host, key):
        """Return a setting as the daemons say it, with all hosts' copies."""
        return self.lab.sh(host, f"scontrol show config | sed -n 's/^{key} *= //p'").strip()

    def nodes(self):
        """Return each node's state."""
        lines = self.lab.sh("controller", "sinfo --noheader --Node '--format=%N %T'").splitlines()
        return dict(line.split() for line in lines)

    def reason(self, node):
        """Return why a node is drained."""
        return self.lab.sh("controller", f"sinfo --noheader --nodes={node} --format=%E").strip()

    def show(self, node, key):
        """Return what slurmctld says of a node."""
        return re.search(
            rf"\b{key}=(\S+)", self.lab.sh("controller", f"scontrol show node {node}")
        )[1]


@pytest.fixture(scope="module")
def daemons(lab):
    return Daemons(lab)


@pytest.fixture(scope="module")
def jobs(lab, tmp_path_factory):
    jobs = SlurmJobs(lab, operator(lab, tmp_path_factory.mktemp("ssh")), f"0x{'d2' * 20}")
    yield jobs
    jobs.close()


@pytest.fixture(scope="module")
def running(lab, jobs):
    """A job on the old nodes that runs until a file tells it to end; what it says proves that it
    was begun once.
    """
    command = 'echo $$ "$(hostname)"; until test -e "$HOME/enough"; do sleep 0.5; done; echo end'
    lab.run("infra", "rm", "-f", f"{jobs.home}/enough")
    job = jobs.submit(
        {"run": {"command": command, "resources": {"tasks": 2}}}, nodes=",".join(OLD), minutes=60
    )
    started = f"grep -c compute {jobs.home}/{job.job_key.job_id.slurm_name}.out"
    wait_until(
        lambda: lab.run("infra", "sh", "-c", started, check=False).stdout.strip() == "2", timeout=60
    )
    return job


@pytest.fixture(scope="module")
def new_node(lab, tmp_path_factory):
    lab.tool("add", NEW, "--like", "compute2")
    yield NEW
    lab.tool("remove", NEW)
    file = tmp_path_factory.mktemp("play") / "forget.yml"
    file.write_text(FORGET)
    built = {"control_plane_wheel": str(next((CHECKOUT / "dist").glob("gridstead-*.whl")))}
    play(str(file), control_plane_requirements=str(CHECKOUT / "requirements/control.txt"), **built)


def test_a_comment_costs_nothing(lab, daemons, running, configure):
    before = daemons.starts()
    lab.sh("controller", "echo '# calm' >>/etc/slurm/slurm.conf")

    said = configure()

    assert "Reconfigure Slurm" not in said
    assert "calm" not in lab.run("controller", "cat", "/etc/slurm/slurm.conf").stdout
    assert daemons.starts() == before


def test_parameters_limits_and_nodes_cost_a_reconfigure(lab, daemons, running, configure):
    before = daemons.starts()
    node = {"CPUs": 64, "RealMemory": 2400, "Gres": "gpu:2"}
    partitions = {
        "main": {
            "Nodes": "ALL",
            "Default": "YES",
            "DefaultTime": "10",
            "MaxTime": "6-00:00:00",
            "State": "UP",
        }
    }

    said = configure(
        slurm_node=node, slurm_partitions=partitions, slurm_config_site=SITE | {"KillWait": 7}
    )

    assert "KillWait, node compute1, node compute2, partition main: reconfigure" in said
    assert [daemons.setting(host, "KillWait") for host in ("controller", "login", *OLD)] == [
        "7 sec"
    ] * 4
    assert daemons.show("compute1", "RealMemory") == "2400"
    assert set(daemons.nodes().values()) == {"mixed"}
    assert daemons.starts() == before


def test_what_a_reconfigure_cannot_change_restarts_slurmctld_alone(daemons, running, configure):
    before = daemons.starts()

    configure(slurm_config_site=SITE | {"CommunicationParameters": "keepaliveinterval=60"})

    now = daemons.starts()
    assert {unit for unit in before if now[unit] != before[unit]} == {"slurmctld@controller"}
    assert daemons.setting("compute1", "CommunicationParameters") == "keepaliveinterval=60"
    configure()
    assert daemons.setting("compute1", "CommunicationParameters") == "(null)"


def test_a_partition_with_a_job_does_not_go_and_its_node_keeps_its_cores(lab, running, configure):
    node = {"CPUs": 60, "RealMemory": 2500, "Gres": "gpu:2"}
    partitions = {"other": {"Nodes": "ALL", "Default": "YES", "State": "UP"}}
    before = lab.run("controller", "cat", "/etc/slurm/slurm.conf").stdout

    said = configure(slurm_node=node, slurm_partitions=partitions, check=False)

    assert f"Slurm would end jobs {running.slurm_job_id}" in " ".join(said.split())
    assert lab.run("controller", "cat", "/etc/slurm/slurm.conf").stdout == before


def test_an_unfit_node_takes_no_jobs_until_it_is_fit(lab, daemons, running):
    checks, fit = "/etc/slurm/gridstead-checks.json", "/run/fit"
    known = json.loads(lab.run("compute2", "cat", checks).stdout)
    more = [*known, {"what": "a file", "argv": ["test", "-e", fit]}]
    try:
        lab.sh("compute2", f"cat >{checks} <<'EOF'\n{json.dumps(more)}\nEOF")
        wait_until(lambda: daemons.nodes()["compute2"] == "draining", timeout=60)
        assert "unfit: a file: status 1" in lab.sh("controller", "sinfo --noheader --format=%E")

        lab.run("compute2", "touch", fit)
        wait_until(lambda: daemons.nodes()["compute2"] == "mixed", timeout=60)
    finally:
        lab.sh(
            "compute2", f"rm -f {fit}; cat >{checks} <<'EOF'\n{json.dumps(known, indent=4)}\nEOF"
        )


def test_a_node_that_was_drained_for_a_job_that_did_not_end_comes_back_without_it(
    lab, daemons, running
):
    job, notes = running.slurm_job_id, "/run/gridstead-check-node/unkillable"
    (program,) = re.findall(
        r"UnkillableStepProgram += (\S+)", lab.sh("controller", "scontrol show config")
    )
    try:
        lab.sh("compute2", f"SLURM_JOB_ID={job} {program}")  # as slurmstepd runs it
        lab.sh(
            "controller", "scontrol update nodename=compute2 state=drain reason='Kill task failed'"
        )
        wait_until(
            lambda: (
                daemons.reason("compute2") == f"unfit: job {job} does not end though it was killed"
            ),
            timeout=60,
        )

        lab.sh("compute2", f"mv {notes}/{job} {notes}/{LONG_GONE}")
        wait_until(lambda: daemons.nodes()["compute2"] == "mixed", timeout=60)
        wait_until(lambda: not lab.sh("compute2", f"ls {notes}"), timeout=60)
    finally:
        lab.sh("compute2", f"rm -f {notes}/*")


def test_a_new_node_joins_and_the_others_are_left_alone(daemons, running, jobs, new_node):
    before = daemons.starts()
    began = time.monotonic()

    said = play("playbooks/add_node.yml")

    seconds = time.monotonic() - began
    assert hosts_of(said) & {*OLD, NEW} == {NEW}
    assert daemons.nodes()[NEW] == "idle"
    assert {unit: start for unit, start in daemons.starts().items() if start != before[unit]} == {}
    assert jobs.wait(jobs.submit(HOSTNAME, nodes=NEW)).output.split()[-2:] == [NEW, NEW]
    assert (
        jobs.wait(
            jobs.submit(
                {"run": {"command": "hostname", "resources": {"tasks": 2}}}, nodes=f"compute1,{NEW}"
            )
        ).code
        == 0
    )
    print(f"{NEW} joined in {seconds:.0f} s")


def test_nodes_drain_and_resume(daemons, jobs, new_node):
    job = jobs.submit({"run": {"command": "sleep 8; echo done"}}, nodes=NEW, tasks=1)
    wait_until(lambda: daemons.nodes()[NEW] != "idle", timeout=30)

    refused = play(
        "playbooks/drain.yml", nodes="compute9,compute[1-2]", reason="new disks", check=False
    )
    drained = play("playbooks/drain.yml", "-e", f"nodes={NEW} reason='new disks'", wait_s=60)

    assert "Slurm has no node compute9. Its nodes are compute1, compute2, compute3." in " ".join(
        refused.split()
    )
    assert "changed=1" in drained
    assert daemons.nodes()[NEW] == "drained"
    assert daemons.reason(NEW) == "new disks"
    assert jobs.wait(job).output.endswith("done\n")
    assert "changed=0" in play("playbooks/drain.yml", nodes=NEW, reason="new disks")

    play("playbooks/drain.yml", nodes=NEW, state="resume")

    assert daemons.nodes()[NEW] == "idle"


def test_waiting_for_jobs_has_an_end_and_the_job_that_saw_it_all_was_begun_once(
    lab, daemons, jobs, running
):
    said = play(
        "playbooks/drain.yml", nodes=",".join(OLD), reason="new disks", wait_s=1, check=False
    )

    assert f"1 jobs still run after 1 s: {running.slurm_job_id} of" in " ".join(said.split())
    assert {daemons.nodes()[host] for host in OLD} == {"draining"}

    play("playbooks/drain.yml", nodes="compute[1-2]", state="resume")
    lab.run("infra", "touch", f"{jobs.home}/enough")

    ended = jobs.wait(running)
    assert ended.code == 0
    assert sorted(word for line in ended.output.splitlines() for word in line.split()[1:]) == list(
        OLD
    )
    assert ended.output.count("end") == 2
