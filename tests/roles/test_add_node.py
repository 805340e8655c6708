# SPDX-License-Identifier: Apache-2.0
"""add_node.yml configures new nodes like site.yml, even if another host is unreachable."""

import json
import os
import re
import shutil
import subprocess

import pytest
import yaml
from tests.roles.catalogue import ROOT
from tests.roles.conftest import roles_of

ADD_NODE = ROOT / "playbooks/add_node.yml"
NEW = "add_node_new"


def plays(path):
    """Return the plays of a playbook and of its imported playbooks."""
    for play in yaml.safe_load(path.read_text()):
        imported = play.get("ansible.builtin.import_playbook")
        yield from plays(path.parent / imported) if imported else [play]


def test_new_nodes_get_every_role_of_nodes_in_site_yml(site):
    required, given = set(), set()
    for play in plays(ROOT / "playbooks/site.yml"):
        if "compute1" in [host.name for host in site.inventory.get_hosts(play["hosts"])]:
            required |= roles_of(play)
    for play in plays(ADD_NODE):
        if NEW in play["hosts"].split(":"):
            given |= roles_of(play)

    assert given == required


def test_no_play_of_add_node_runs_on_existing_nodes():
    named = {part.strip("&!") for play in plays(ADD_NODE) for part in play["hosts"].split(":")}

    assert named.isdisjoint({"slurm_compute", "slurm", "storage_clients", "sssd_clients"})
    assert [play["name"] for play in plays(ADD_NODE) if play["hosts"].startswith("all")] == [
        "Refuse --limit and --tags",
        "Check the inventory",
        "Build the control plane",
    ]


def find(folder, **given):
    """Find new nodes where compute1 is none; return how that ended, what it said, and who is
    reached then.
    """
    (folder / "sinfo").write_text("#!/bin/sh\necho compute1\n")
    (folder / "sinfo").chmod(0o755)
    here = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    groups = {
        "slurm_controller": ["ash"],
        "slurm_login": ["birch"],
        "slurm_compute": ["compute1", "gpu7", "gpu8"],
    }
    children = {name: {"hosts": dict.fromkeys(hosts, here)} for name, hosts in groups.items()}
    known = {"vars": {"gridstead_networks": {}}, "children": children}
    (folder / "hosts.json").write_text(json.dumps({"all": known}))
    (look,) = (play for play in plays(ADD_NODE) if play["name"] == "Find the new nodes")
    reach = {
        "hosts": "add_node_all",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.ping": None, "name": "Reach"}],
    }
    (folder / "book.yml").write_text(yaml.safe_dump([look, reach]))
    shutil.copytree(ROOT / "playbooks/tasks", folder / "tasks")
    command = [
        "ansible-playbook",
        f"--inventory={folder / 'hosts.json'}",
        folder / "book.yml",
        "-e",
        json.dumps(given),
    ]
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    reached = result.stdout.partition("TASK [Reach]")[2].partition("PLAY RECAP")[0]
    return (
        result.returncode,
        " ".join(result.stdout.split()),
        set(re.findall(r"ok: \[(\w+)\]", reached)),
    )


@pytest.mark.parametrize(
    ("given", "reached"),
    [
        ({}, {"ash", "birch", "compute1", "gpu7", "gpu8"}),
        ({"without": "birch, compute1"}, {"ash", "gpu7", "gpu8"}),
        ({"without": "gpu8"}, {"ash", "birch", "compute1", "gpu7"}),
        ({"nodes": "gpu7", "without": "gpu8"}, {"ash", "birch", "compute1", "gpu7"}),
    ],
)
def test_excluded_hosts_are_reached_by_no_later_play(given, reached, tmp_path):
    assert find(tmp_path, **given)[::2] == (0, reached)


@pytest.mark.parametrize(
    "given", [{"without": "ash"}, {"without": "gpu7", "nodes": "gpu7"}, {"without": "compute9"}]
)
def test_required_hosts_are_not_excluded(given, tmp_path):
    code, said, reached = find(tmp_path, **given)

    assert (code, reached) == (2, set())
    assert f"without is {given['without']}: only compute and login hosts can be skipped" in said
