# SPDX-License-Identifier: Apache-2.0
"""Changes of a running cluster: changes of Slurm's configuration, a new node and drained nodes.

A job runs during all changes. The new node is a host that the fixture adds to the lab and removes.
"""

import json
import os
import re
import subprocess
import time

import pytest
from tests.e2e.conftest import CHECKOUT, wait_until
from tests.e2e.slurm_jobs import SlurmJobs, operator_access

NEW = "compute3"
OLD = ("compute1", "compute2")
SITE = {
    "DefMemPerCPU": 32,
    "HealthCheckInterval": 10,
    "SlurmdParameters": "config_overrides",
}  # the lab's own settings
UNKNOWN_JOB = 99_999_999  # a job id that Slurm never used
HOSTNAME = {"run": {"command": "hostname", "resources": {"tasks": 2}}}
# Applies the controller's part of the role.
CONTROLLER = """\
- hosts: slurm_controller
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: gridstead.site.slurm}
      vars: {slurm_components: [controller]}
"""
# Applies the parts of site.yml that remove the new node from the hosts that add_node.yml
# configured. add_node.yml does not configure the other compute hosts.
FORGET = """\
- hosts: all:!slurm_compute
  gather_subset: [min]
  tasks:
    - ansible.builtin.import_role: {name: gridstead.site.base, tasks_from: configure}
- hosts: storage
  gather_facts: false
  roles: [gridstead.site.shared_storage]
- hosts: slurm_controller
  gather_facts: false
  roles:
    - role: gridstead.site.control_plane
    - {role: gridstead.site.slurm, slurm_components: [controller]}
"""


def play(*arguments, check=True, **variables):
    """Run a playbook and return its output, which ends with the recap."""
    argv = ["ansible-playbook", *arguments, "-e", json.dumps(variables)]
    done = subprocess.run(
        argv, cwd=CHECKOUT, check=False, capture_output=True, text=True, env=os.environ
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def configure(tmp_path_factory):
    """A function that configures the controller with changed variables, or with the site's own."""
    file = tmp_path_factory.mktemp("play") / "controller.yml"
    file.write_text(CONTROLLER)
    return lambda **changes: play(str(file), "--tags", "slurm_configure", **changes)


def hosts_of(output):
    """Return the hosts on which a playbook ran tasks."""
    return set(re.findall(r"^(\S+) +: ok=", output.partition("PLAY RECAP")[2], re.MULTILINE))


class Daemons:
    """The Slurm daemons of the cluster."""

    def __init__(self, lab):
        self.lab = lab

    def starts(self):
        """Return the invocation id of each daemon's unit, which only a restart changes."""
        units = [
            ("controller", "slurmctld"),
            *((host, "slurmd") for host in OLD),
            ("login", "sackd"),
        ]
        show = "systemctl show --property InvocationID --value"
        ids = {}
        for host, unit in units:
            ids[f"{unit}@{host}"] = self.lab.sh(host, f"{show} {unit}").strip()
        return ids

    def setting(self, host, key):
        """Return a setting of Slurm, as `scontrol show config` on a host reports it."""
        return self.lab.sh(host, f"scontrol show config | sed -n 's/^{key} *= //p'").strip()

    def nodes(self):
        """Return the state of each node."""
        lines = self.lab.sh("controller", "sinfo --noheader --Node '--format=%N %T'").splitlines()
        return dict(line.split() for line in lines)

    def reason(self, node):
        """Return the reason of a drained node."""
        return self.lab.sh("controller", f"sinfo --noheader --nodes={node} --format=%E").strip()

    def show(self, node, key):
        """Return a field of a node, as `scontrol show node` reports it."""
        text = self.lab.sh("controller", f"scontrol show node {node}")
        return re.search(rf"\b{key}=(\S+)", text)[1]


@pytest.fixture(scope="module")
def daemons(lab):
    return Daemons(lab)


@pytest.fixture(scope="module")
def jobs(lab, tmp_path_factory):
    jobs = SlurmJobs(lab, operator_access(lab, tmp_path_factory.mktemp("ssh")), f"0x{'d2' * 20}")
    yield jobs
    jobs.close()


@pytest.fixture(scope="module")
def running(lab, jobs):
    """A job on the old nodes that runs until a file exists. Its output has a line per start."""
    command = 'echo $$ "$(hostname)"; until test -e "$HOME/enough"; do sleep 0.5; done; echo end'
    lab.run("infra", "rm", "-f", f"{jobs.home}/enough")
    job = jobs.submit(
        {"run": {"command": command, "resources": {"tasks": 2}}}, nodes=",".join(OLD), minutes=60
    )
    started = f"grep -c compute {jobs.home}/{job.job_key.job_id.slurm_name}.out"

    def has_started():
        return lab.run("infra", "sh", "-c", started, check=False).stdout.strip() == "2"

    wait_until(has_started, timeout=60)
    return job


@pytest.fixture(scope="module")
def new_node(lab, tmp_path_factory):
    lab.tool("add", NEW, "--like", "compute2")
    yield NEW
    lab.tool("remove", NEW)
    file = tmp_path_factory.mktemp("play") / "forget.yml"
    file.write_text(FORGET)
    wheel = str(next((CHECKOUT / "dist").glob("gridstead-*.whl")))
    requirements = str(CHECKOUT / "requirements/control.txt")
    play(str(file), control_plane_requirements=requirements, control_plane_wheel=wheel)


def test_a_changed_comment_causes_no_reconfigure(lab, daemons, running, configure):
    before = daemons.starts()
    lab.sh("controller", "echo '# a comment' >>/etc/slurm/slurm.conf")

    output = configure()

    assert "Reconfigure Slurm" not in output
    assert "# a comment" not in lab.run("controller", "cat", "/etc/slurm/slurm.conf").stdout
    assert daemons.starts() == before


def test_parameters_limits_and_nodes_need_a_reconfigure(lab, daemons, running, configure):
    before = daemons.starts()
    node = {"CPUs": 64, "RealMemory": 2400, "Gres": "gpu:2"}
    main = {"Nodes": "ALL", "Default": "YES", "State": "UP"}
    main |= {"DefaultTime": "10", "MaxTime": "6-00:00:00"}

    output = configure(
        slurm_node=node, slurm_partitions={"main": main}, slurm_config_site=SITE | {"KillWait": 7}
    )

    assert "KillWait, node compute1, node compute2, partition main: reconfigure" in output
    for host in ("controller", "login", *OLD):
        assert daemons.setting(host, "KillWait") == "7 sec", host
    assert daemons.show("compute1", "RealMemory") == "2400"
    assert set(daemons.nodes().values()) == {"mixed"}
    assert daemons.starts() == before


def test_other_parameters_restart_only_slurmctld(daemons, running, configure):
    before = daemons.starts()

    configure(slurm_config_site=SITE | {"CommunicationParameters": "keepaliveinterval=60"})

    after = daemons.starts()
    assert {unit for unit in before if after[unit] != before[unit]} == {"slurmctld@controller"}
    assert daemons.setting("compute1", "CommunicationParameters") == "keepaliveinterval=60"
    configure()
    assert daemons.setting("compute1", "CommunicationParameters") == "(null)"


def test_a_change_that_would_end_a_job_is_refused(lab, running, configure):
    node = {"CPUs": 60, "RealMemory": 2500, "Gres": "gpu:2"}
    partitions = {"other": {"Nodes": "ALL", "Default": "YES", "State": "UP"}}
    before = lab.run("controller", "cat", "/etc/slurm/slurm.conf").stdout

    output = configure(slurm_node=node, slurm_partitions=partitions, check=False)

    assert f"Slurm would end the jobs {running.slurm_job_id}" in " ".join(output.split())
    assert lab.run("controller", "cat", "/etc/slurm/slurm.conf").stdout == before


def test_an_unfit_node_is_drained_until_its_checks_pass(lab, daemons, running):
    checks, flag = "/etc/slurm/gridstead-checks.json", "/run/fit"
    checks_before = json.loads(lab.run("compute2", "cat", checks).stdout)
    checks_after = [*checks_before, {"what": "a file", "argv": ["test", "-e", flag]}]
    try:
        lab.sh("compute2", f"cat >{checks} <<'EOF'\n{json.dumps(checks_after)}\nEOF")
        wait_until(lambda: daemons.nodes()["compute2"] == "draining", timeout=60)
        assert "unfit: a file: status 1" in lab.sh("controller", "sinfo --noheader --format=%E")

        lab.run("compute2", "touch", flag)
        wait_until(lambda: daemons.nodes()["compute2"] == "mixed", timeout=60)
    finally:
        lab.sh(
            "compute2",
            f"rm -f {flag}; cat >{checks} <<'EOF'\n{json.dumps(checks_before, indent=4)}\nEOF",
        )


def test_a_node_drained_for_an_unkillable_job_resumes_after_the_job(lab, daemons, running):
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

        lab.sh("compute2", f"mv {notes}/{job} {notes}/{UNKNOWN_JOB}")
        wait_until(lambda: daemons.nodes()["compute2"] == "mixed", timeout=60)
        wait_until(lambda: not lab.sh("compute2", f"ls {notes}"), timeout=60)
    finally:
        lab.sh("compute2", f"rm -f {notes}/*")


def test_a_new_node_joins_without_changes_on_the_other_nodes(daemons, running, jobs, new_node):
    before = daemons.starts()
    start_s = time.monotonic()

    output = play("playbooks/add_node.yml")

    seconds = time.monotonic() - start_s
    assert hosts_of(output) & {*OLD, NEW} == {NEW}
    assert daemons.nodes()[NEW] == "idle"
    assert daemons.starts() == before
    assert jobs.wait(jobs.submit(HOSTNAME, nodes=NEW)).output.split()[-2:] == [NEW, NEW]
    assert jobs.wait(jobs.submit(HOSTNAME, nodes=f"compute1,{NEW}")).code == 0
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


def test_drain_stops_waiting_after_its_limit_and_the_running_job_started_once(
    lab, daemons, jobs, running
):
    output = play(
        "playbooks/drain.yml", nodes=",".join(OLD), reason="new disks", wait_s=1, check=False
    )

    assert f"1 jobs still run after 1 s: {running.slurm_job_id} of" in " ".join(output.split())
    assert {daemons.nodes()[host] for host in OLD} == {"draining"}

    play("playbooks/drain.yml", nodes="compute[1-2]", state="resume")
    lab.run("infra", "touch", f"{jobs.home}/enough")

    ended = jobs.wait(running)
    assert ended.code == 0
    hosts = []
    for line in ended.output.splitlines():
        hosts += line.split()[1:]
    assert sorted(hosts) == list(OLD)
    assert ended.output.count("end") == 2
