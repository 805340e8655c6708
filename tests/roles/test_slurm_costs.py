# SPDX-License-Identifier: Apache-2.0
"""The costs of changes of Slurm's configuration: nothing, a reconfiguration or a restart."""

import json
import os
import subprocess

import pytest
from tests.roles.catalogue import COSTS_PAGE, Role, slurm_costs, slurm_rules, with_costs
from tests.yaml_files import read_yaml

ROLE = Role("slurm")
costs = slurm_costs()
RULES = slurm_rules()

CONF = """\
# Ansible managed
Include first_job_id.conf
AuthType=auth/munge
KillWait=5
SchedulerParameters=bf_interval=5,sched_min_interval=20000
SlurmctldHost=controller
SlurmctldHost=second
SlurmctldPort=6817

NodeName=compute1 CPUs=64 RealMemory=2500
NodeName=compute2 CPUs=64 RealMemory=2500

PartitionName=main Default=YES MaxTime=7-00:00:00 Nodes=ALL
PartitionName=long MaxTime=30-00:00:00 Nodes=ALL
"""
EPILOG = "#!/bin/sh\n# old comment\nexit 0\n"
FILES = {
    "slurm.conf": CONF,
    "gres.conf": "",
    "job_container.conf": "Dirs=/tmp\n",
    "cgroup.conf": "A=b\n",
    "epilog": EPILOG,
}


@pytest.mark.parametrize(
    ("file", "old", "new", "cost", "differences"),
    [
        (
            "slurm.conf",
            "# Ansible managed",
            "# Ansible managed, with another comment",
            "nothing",
            (),
        ),
        ("slurm.conf", "KillWait=5", "  KillWait=5   # seconds", "nothing", ()),
        ("slurm.conf", "CPUs=64 RealMemory=2500", "RealMemory=2500  CPUs=64", "nothing", ()),
        ("slurm.conf", "KillWait=5\n", "", "reconfigure", ("KillWait",)),
        (
            "slurm.conf",
            "sched_min_interval=20000",
            "sched_min_interval=30000",
            "reconfigure",
            ("SchedulerParameters",),
        ),
        ("slurm.conf", "MaxTime=30-", "MaxTime=20-", "reconfigure", ("partition long",)),
        (
            "slurm.conf",
            "NodeName=compute2 CPUs=64",
            "NodeName=compute2 CPUs=48",
            "reconfigure",
            ("node compute2",),
        ),
        (
            "slurm.conf",
            "RealMemory=2500\n\n",
            "RealMemory=2400\n\n",
            "reconfigure",
            ("node compute2",),
        ),
        (
            "slurm.conf",
            "\nPartition",
            "NodeName=compute3 CPUs=1\n\nPartition",
            "reconfigure",
            ("node compute3",),
        ),
        ("slurm.conf", "SlurmctldPort=6817", "SlurmctldPort=6820", "restart", ("SlurmctldPort",)),
        ("slurm.conf", "auth/munge", "auth/slurm", "restart", ("AuthType",)),
        ("slurm.conf", "SlurmctldHost=second\n", "", "restart", ("SlurmctldHost",)),
        ("slurm.conf", "controller\nSlurmctldHost=second", "second", "restart", ("SlurmctldHost",)),
        (
            "gres.conf",
            "",
            "NodeName=compute1 Name=gpu File=/dev/nvidia0",
            "reconfigure",
            ("gres.conf",),
        ),
        ("cgroup.conf", "A=b", "A=c", "reconfigure", ("A",)),
        ("epilog", "# old comment", "# new comment", "nothing", ()),
        ("epilog", "exit 0", "exit 1", "reconfigure", ("epilog",)),
    ],
)
def test_a_change_has_the_cost_of_its_rule(file, old, new, cost, differences):
    changed_files = FILES | {file: FILES[file].replace(old, new, 1)}

    change_cost = costs.compute_cost(FILES, changed_files, RULES)

    assert change_cost.cost == cost
    assert change_cost.differences == differences


@pytest.mark.parametrize(
    ("file", "old", "new", "ends"),
    [
        ("slurm.conf", "KillWait=5", "KillWait=6", ()),
        (
            "slurm.conf",
            "NodeName=compute2 CPUs=64",
            "NodeName=compute2 cpus=48",
            (("--nodelist=compute2",),),
        ),
        ("slurm.conf", "RealMemory=2500\n\n", "RealMemory=2400\n\n", ()),
        ("slurm.conf", "\nPartition", "NodeName=compute3 CPUs=1\n\nPartition", ()),
        (
            "slurm.conf",
            "NodeName=compute2 CPUs=64 RealMemory=2500\n",
            "",
            (("--nodelist=compute2",),),
        ),
        ("slurm.conf", "PartitionName=long", "PartitionName=slow", (("--partition=long",),)),
        ("slurm.conf", "auth/munge", "auth/slurm", ((),)),
        ("job_container.conf", "/tmp", "/dev/shm", ((),)),
    ],
)
def test_a_change_that_ends_jobs_names_the_jobs(file, old, new, ends):
    """Each item of ``ends`` contains the options with which squeue lists the ended jobs.

    Without options, squeue lists all jobs.
    """
    changed_files = FILES | {file: FILES[file].replace(old, new, 1)}

    assert costs.compute_cost(FILES, changed_files, RULES).ends == ends


def test_the_most_expensive_change_decides():
    changed_files = FILES | {
        "slurm.conf": CONF.replace("KillWait=5", "KillWait=6").replace("6817", "6820")
    }

    assert costs.compute_cost(FILES, changed_files, RULES).cost == "restart"


def test_the_first_configuration_starts_slurmctld():
    assert costs.compute_cost({}, FILES, RULES).cost == "restart"


def test_unchanged_files_of_the_role_cost_nothing(render):
    files = {}
    for name in ROLE.vars["__slurm_controller_files"]:
        template = ROLE.path / f"templates/etc/slurm/{name}.j2"
        files[name] = render(ROLE, template, "controller")

    cost = costs.compute_cost(files, files, RULES)

    assert cost == costs.ChangeCost(cost="nothing", differences=(), ends=())
    settings = costs.parse_settings("slurm.conf", files["slurm.conf"])
    assert {("NodeName", "compute1"), ("PartitionName", "main")} <= settings.keys()


def test_every_cost_has_a_handler():
    handlers = read_yaml(ROLE.path / "handlers/main.yml")
    topics = set()
    for handler in handlers:
        listen = handler["listen"]
        topics |= {listen} if isinstance(listen, str) else set(listen)

    for rule in RULES:
        assert f"slurm_controller_{rule.cost}" in topics


def test_the_page_shows_the_rules():
    """After a change of the rules, ``python -m tests.roles.catalogue`` updates the page."""
    text = COSTS_PAGE.read_text()

    assert with_costs(text) == text


def run_slurm_change(tmp_path, rules, installed="24.11.5"):
    """Run module slurm_change after a change of KillWait and return Ansible's output.

    ``installed`` is the version of the fake Slurm.
    """
    program = tmp_path / "bin/scontrol"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho slurm-wlm {installed}\n")
    program.chmod(0o755)
    in_force = tmp_path / "in-force.json"
    in_force.write_text(json.dumps(FILES))
    arguments = {
        "files": FILES | {"slurm.conf": CONF.replace("KillWait=5", "KillWait=6")},
        "in_force": str(in_force),
        "rules": rules,
    }
    result = subprocess.run(
        ["ansible", "localhost", "-m", "gridstead.site.slurm_change", "-a", json.dumps(arguments)],
        env=os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout


def test_the_rules_of_the_installed_release_apply(tmp_path):
    rule = {"what": "every change", "file": "", "keys": [], "cost": "nothing", "why": "a test"}

    output = run_slurm_change(tmp_path, {"24.11": {"rule": [rule]}, "23.11": {"rule": []}})

    assert "cost: nothing" in output
    assert "- KillWait" in output


def test_an_unsupported_release_is_refused_with_the_supported_releases(tmp_path):
    output = run_slurm_change(tmp_path, {"24.11": {"rule": []}}, installed="25.11.1")

    assert "Slurm 25.11.1 is not supported; supported releases: 24.11" in output
