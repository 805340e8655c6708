# SPDX-License-Identifier: Apache-2.0
"""Tests of changes of a running cluster: Slurm's configuration, a new node and drained nodes.

A job runs during all changes. A fixture adds the new node to the lab and removes it.
"""

import itertools
import json
import os
import re
import subprocess
import time

import pytest
from tests.e2e.conftest import CHECKOUT, wait_until
from tests.e2e.slurm_jobs import SlurmJobs, operator_access

NEW_NODE = "compute3"
OLD_NODES = ("compute1", "compute2")
LAB_SLURM_SETTINGS = {
    "DefMemPerCPU": 32,
    "HealthCheckInterval": 10,
    "SlurmdParameters": "config_overrides",
}  # the settings in the lab's inventory
UNKNOWN_JOB = 99_999_999  # a job id that Slurm never used
HOSTNAME_STEP = {"run": {"command": "hostname", "resources": {"tasks": 2}}}
# A playbook that runs role slurm on the controller, only for component controller.
CONTROLLER_PLAY = """\
- hosts: slurm_controller
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: gridstead.site.slurm}
      vars: {slurm_components: [controller]}
"""
# Applies the parts of site.yml that remove the new node from the configuration of the other hosts.
# The other compute hosts are excluded, because add_node.yml does not configure them.
FORGET_NODE_PLAYS = """\
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


def run_playbook(*arguments, check=True, **variables):
    """Run a playbook and return its output."""
    argv = ["ansible-playbook", *arguments, "-e", json.dumps(variables)]
    result = subprocess.run(
        argv, cwd=CHECKOUT, check=False, capture_output=True, text=True, env=os.environ
    )
    assert not check or result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def configure(tmp_path_factory):
    """A function that configures the controller. The function's arguments set role variables."""
    file = tmp_path_factory.mktemp("play") / "controller.yml"
    file.write_text(CONTROLLER_PLAY)
    return lambda **changes: run_playbook(str(file), "--tags", "slurm_configure", **changes)


def hosts_of(output):
    """Return the hosts on which a playbook ran tasks."""
    # The recap has lines such as "login : ok=12 changed=0 ...".
    return set(re.findall(r"^(\S+) +: ok=", output.partition("PLAY RECAP")[2], re.MULTILINE))


class Daemons:
    """A reader of the state of the cluster's Slurm daemons."""

    def __init__(self, lab):
        self.lab = lab

    def invocation_ids(self):
        """Return the invocation id of each daemon's systemd unit. A restart changes the id."""
        units = [("controller", "slurmctld"), ("login", "sackd")]
        units += itertools.product(OLD_NODES, ["slurmd"])
        show = "systemctl show --property InvocationID --value"
        ids = {}
        for host, unit in units:
            ids[f"{unit}@{host}"] = self.lab.sh(host, f"{show} {unit}").strip()
        return ids

    def setting(self, host, key):
        """Return a setting of Slurm, as `scontrol show config` on a host reports it."""
        return self.lab.sh(host, f"scontrol show config | sed -n 's/^{key} *= //p'").strip()

    def nodes(self):
        """Return the state of each node, without the "-" of a node with a planned job."""
        sinfo = "sinfo --noheader --Node '--format=%N %T' | tr -d -"
        lines = self.lab.sh("controller", sinfo).splitlines()
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
def running_job(lab, jobs):
    """A job on the old nodes that runs until the file ``enough`` exists.

    Each task of the job prints a line when it starts.
    """
    command = 'echo $$ "$(hostname)"; until test -e "$HOME/enough"; do sleep 0.5; done; echo end'
    lab.run("infra", "rm", "-f", f"{jobs.home}/enough")
    job = jobs.submit(
        {"run": {"command": command, "resources": {"tasks": 2}}},
        nodes=",".join(OLD_NODES),
        minutes=60,
    )
    count_starts = f"grep -c compute {jobs.home}/{job.job_key.job_id.slurm_job_name}.out"

    def both_tasks_have_started():
        return lab.run("infra", "sh", "-c", count_starts, check=False).stdout.strip() == "2"

    wait_until(both_tasks_have_started, timeout=60)
    return job


@pytest.fixture(scope="module")
def new_node(lab, tmp_path_factory):
    lab.tool("add", NEW_NODE, "--like", "compute2")
    yield NEW_NODE
    lab.tool("remove", NEW_NODE)
    file = tmp_path_factory.mktemp("play") / "forget.yml"
    file.write_text(FORGET_NODE_PLAYS)
    wheel = str(next((CHECKOUT / "dist").glob("gridstead-*.whl")))
    requirements = str(CHECKOUT / "requirements/control.txt")
    run_playbook(str(file), control_plane_requirements=requirements, control_plane_wheel=wheel)


def test_a_changed_comment_causes_no_reconfigure(lab, daemons, running_job, configure):
    ids_before = daemons.invocation_ids()
    lab.sh("controller", "echo '# a comment' >>/etc/slurm/slurm.conf")

    output = configure()

    assert "Reconfigure Slurm" not in output
    assert "# a comment" not in lab.run("controller", "cat", "/etc/slurm/slurm.conf").stdout
    assert daemons.invocation_ids() == ids_before


def test_changes_that_need_no_restart_reconfigure_slurm(daemons, running_job, configure):
    ids_before = daemons.invocation_ids()
    node = {"CPUs": 64, "RealMemory": 2400, "Gres": "gpu:2"}
    main_partition = {"Nodes": "ALL", "Default": "YES", "State": "UP"}
    main_partition |= {"DefaultTime": "10", "MaxTime": "6-00:00:00"}

    output = configure(
        slurm_node=node,
        slurm_partitions={"main": main_partition},
        slurm_config_site=LAB_SLURM_SETTINGS | {"KillWait": 7},
    )

    assert "KillWait, node compute1, node compute2, partition main: reconfigure" in output
    for host in ("controller", "login", *OLD_NODES):
        assert daemons.setting(host, "KillWait") == "7 sec", host
    assert daemons.show("compute1", "RealMemory") == "2400"
    assert set(daemons.nodes().values()) == {"mixed"}
    assert daemons.invocation_ids() == ids_before


def test_a_parameter_that_needs_a_restart_restarts_only_slurmctld(daemons, running_job, configure):
    ids_before = daemons.invocation_ids()

    configure(
        slurm_config_site=LAB_SLURM_SETTINGS | {"CommunicationParameters": "keepaliveinterval=60"}
    )

    ids_after = daemons.invocation_ids()
    restarted_units = [unit for unit in ids_before if ids_after[unit] != ids_before[unit]]
    assert restarted_units == ["slurmctld@controller"]
    assert daemons.setting("compute1", "CommunicationParameters") == "keepaliveinterval=60"
    configure()
    assert daemons.setting("compute1", "CommunicationParameters") == "(null)"


def test_a_change_that_would_end_a_job_is_refused(lab, running_job, configure):
    node = {"CPUs": 60, "RealMemory": 2500, "Gres": "gpu:2"}
    partitions = {"other": {"Nodes": "ALL", "Default": "YES", "State": "UP"}}
    slurm_conf_before = lab.run("controller", "cat", "/etc/slurm/slurm.conf").stdout

    output = configure(slurm_node=node, slurm_partitions=partitions, check=False)

    assert f"Slurm would end the jobs {running_job.slurm_job_id}" in " ".join(output.split())
    assert lab.run("controller", "cat", "/etc/slurm/slurm.conf").stdout == slurm_conf_before


def test_an_unfit_node_is_drained_until_its_checks_pass(lab, daemons, running_job):
    checks_file, tested_file = "/etc/slurm/gridstead-checks.json", "/run/fit"
    checks_before = json.loads(lab.run("compute2", "cat", checks_file).stdout)
    checks_after = [*checks_before, {"what": "a file", "argv": ["test", "-e", tested_file]}]
    try:
        lab.sh("compute2", f"cat >{checks_file} <<'EOF'\n{json.dumps(checks_after)}\nEOF")
        wait_until(lambda: daemons.nodes()["compute2"] == "draining", timeout=60)
        assert "unfit: a file: status 1" in lab.sh("controller", "sinfo --noheader --format=%E")

        lab.run("compute2", "touch", tested_file)
        wait_until(lambda: daemons.nodes()["compute2"] == "mixed", timeout=60)
    finally:
        lab.sh(
            "compute2",
            f"rm -f {tested_file}; "
            f"cat >{checks_file} <<'EOF'\n{json.dumps(checks_before, indent=4)}\nEOF",
        )


def test_a_node_drained_for_an_unkillable_job_resumes_after_the_job(lab, daemons, running_job):
    slurm_job_id, notes_folder = running_job.slurm_job_id, "/run/gridstead-check-node/unkillable"
    (program,) = re.findall(
        r"UnkillableStepProgram += (\S+)", lab.sh("controller", "scontrol show config")
    )
    try:
        # Run the program as slurmstepd does.
        lab.sh("compute2", f"SLURM_JOB_ID={slurm_job_id} {program}")
        lab.sh(
            "controller", "scontrol update nodename=compute2 state=drain reason='Kill task failed'"
        )
        expected_reason = f"unfit: job {slurm_job_id} does not end though it was killed"
        wait_until(lambda: daemons.reason("compute2") == expected_reason, timeout=60)

        # Slurm does not know this job id, as after the end of a job.
        lab.sh("compute2", f"mv {notes_folder}/{slurm_job_id} {notes_folder}/{UNKNOWN_JOB}")
        wait_until(lambda: daemons.nodes()["compute2"] == "mixed", timeout=60)
        wait_until(lambda: not lab.sh("compute2", f"ls {notes_folder}"), timeout=60)
    finally:
        lab.sh("compute2", f"rm -f {notes_folder}/*")


def test_a_new_node_is_added_without_tasks_on_old_nodes(daemons, running_job, jobs, new_node):
    ids_before = daemons.invocation_ids()
    start_s = time.monotonic()

    output = run_playbook("playbooks/add_node.yml")

    seconds = time.monotonic() - start_s
    assert hosts_of(output) & {*OLD_NODES, NEW_NODE} == {NEW_NODE}
    assert daemons.nodes()[NEW_NODE] == "idle"
    assert daemons.invocation_ids() == ids_before
    result = jobs.wait(jobs.submit(HOSTNAME_STEP, nodes=NEW_NODE))
    assert result.output.split()[-2:] == [NEW_NODE, NEW_NODE]
    assert jobs.wait(jobs.submit(HOSTNAME_STEP, nodes=f"compute1,{NEW_NODE}")).code == 0
    print(f"{NEW_NODE} joined in {seconds:.0f} s")


def test_nodes_drain_and_resume(daemons, jobs, new_node):
    job = jobs.submit({"run": {"command": "sleep 8; echo done"}}, nodes=NEW_NODE, tasks=1)
    wait_until(lambda: daemons.nodes()[NEW_NODE] != "idle", timeout=30)

    refused_output = run_playbook(
        "playbooks/drain.yml", nodes="compute9,compute[1-2]", reason="new disks", check=False
    )
    drain_output = run_playbook(
        "playbooks/drain.yml", "-e", f"nodes={NEW_NODE} reason='new disks'", wait_s=60
    )

    assert "Slurm has no node compute9. Its nodes are compute1, compute2, compute3." in " ".join(
        refused_output.split()
    )
    assert "changed=1" in drain_output
    assert daemons.nodes()[NEW_NODE] == "drained"
    assert daemons.reason(NEW_NODE) == "new disks"
    assert jobs.wait(job).output.endswith("done\n")
    assert "changed=0" in run_playbook("playbooks/drain.yml", nodes=NEW_NODE, reason="new disks")

    run_playbook("playbooks/drain.yml", nodes=NEW_NODE, state="resume")

    assert daemons.nodes()[NEW_NODE] == "idle"


def test_a_drain_that_times_out_does_not_restart_the_running_job(lab, daemons, jobs, running_job):
    output = run_playbook(
        "playbooks/drain.yml", nodes=",".join(OLD_NODES), reason="new disks", wait_s=1, check=False
    )

    assert f"1 jobs still run after 1 s: {running_job.slurm_job_id} of" in " ".join(output.split())
    assert {daemons.nodes()[host] for host in OLD_NODES} == {"draining"}

    run_playbook("playbooks/drain.yml", nodes="compute[1-2]", state="resume")
    lab.run("infra", "touch", f"{jobs.home}/enough")

    result = jobs.wait(running_job)
    assert result.code == 0
    # A task prints a process id and its host when it starts, and "end" when it ends. A restarted
    # job would have printed more hosts.
    hosts = []
    for line in result.output.splitlines():
        hosts += line.split()[1:]
    assert sorted(hosts) == list(OLD_NODES)
    assert result.output.count("end") == 2
