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
from tests.roles.content import named
from tests.yaml_files import read_yaml

pytestmark = pytest.mark.slow

ADD_NODE = ROOT / "playbooks/add_node.yml"
NEW_NODES = "add_node_new"


def plays(path):
    """Return the plays of a playbook and of its imported playbooks."""
    for play in read_yaml(path):
        imported_playbook = play.get("ansible.builtin.import_playbook")
        if imported_playbook:
            yield from plays(path.parent / imported_playbook)
        else:
            yield play


def test_new_nodes_get_every_role_that_site_yml_gives_to_nodes(site):
    node = site.inventory.get_host("compute1")
    site_roles = set()
    for play in plays(ROOT / "playbooks/site.yml"):
        if node in site.inventory.get_hosts(play["hosts"]):
            site_roles |= roles_of(play)
    new_node_roles = set()
    for play in plays(ADD_NODE):
        if NEW_NODES in play["hosts"].split(":"):
            new_node_roles |= roles_of(play)

    assert new_node_roles == site_roles


def test_no_play_of_add_node_runs_on_existing_nodes():
    groups_of_nodes = {"slurm_compute", "slurm", "storage_clients", "sssd_clients"}
    plays_on_all = []
    for play in plays(ADD_NODE):
        assert groups_of_nodes.isdisjoint(re.findall(r"\w+", play["hosts"]))
        if play["hosts"].startswith("all"):
            plays_on_all += [play["name"]]

    assert plays_on_all == [
        "Refuse --limit and --tags",
        "Check the inventory",
        "Build the wheels of the control plane",
    ]


def find_new_nodes(folder, **variables):
    """Run the play that finds the new nodes of a cluster.

    compute1 is an old node, and gpu7 and gpu8 are new nodes. Return the exit code, the output, and
    the hosts that later plays reach.
    """
    (folder / "sinfo").write_text("#!/bin/sh\necho compute1\n")
    (folder / "sinfo").chmod(0o755)
    local = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    groups = {
        "slurm_controller": ["ash"],
        "slurm_login": ["birch"],
        "slurm_compute": ["compute1", "gpu7", "gpu8"],
    }
    children = {name: {"hosts": dict.fromkeys(hosts, local)} for name, hosts in groups.items()}
    inventory = {"all": {"vars": {"gridstead_networks": {}}, "children": children}}
    (folder / "hosts.json").write_text(json.dumps(inventory))
    find_play = named("Find the new nodes", plays(ADD_NODE))
    ping_play = {
        "hosts": "add_node_all",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.ping": None, "name": "Reach"}],
    }
    (folder / "playbook.yml").write_text(yaml.safe_dump([find_play, ping_play]))
    shutil.copytree(ROOT / "playbooks/tasks", folder / "tasks")
    command = [
        "ansible-playbook",
        f"--inventory={folder / 'hosts.json'}",
        folder / "playbook.yml",
        "-e",
        json.dumps(variables),
    ]
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    pings = result.stdout.partition("TASK [Reach]")[2].partition("PLAY RECAP")[0]
    reached_hosts = set(re.findall(r"ok: \[(\w+)\]", pings))
    return result.returncode, " ".join(result.stdout.split()), reached_hosts


@pytest.mark.parametrize(
    ("variables", "expected_hosts"),
    [
        ({}, {"ash", "birch", "compute1", "gpu7", "gpu8"}),
        ({"without": "birch, compute1"}, {"ash", "gpu7", "gpu8"}),
        ({"without": "gpu8"}, {"ash", "birch", "compute1", "gpu7"}),
        ({"nodes": "gpu7", "without": "gpu8"}, {"ash", "birch", "compute1", "gpu7"}),
    ],
)
def test_excluded_hosts_are_reached_by_no_later_play(variables, expected_hosts, tmp_path):
    code, _, reached = find_new_nodes(tmp_path, **variables)

    assert code == 0
    assert reached == expected_hosts


@pytest.mark.parametrize(
    "variables", [{"without": "ash"}, {"without": "gpu7", "nodes": "gpu7"}, {"without": "compute9"}]
)
def test_the_exclusion_of_a_required_or_unknown_host_is_refused(variables, tmp_path):
    code, output, reached = find_new_nodes(tmp_path, **variables)

    assert code == 2
    assert reached == set()
    excluded = variables["without"]
    assert f'without is "{excluded}". Only compute and login hosts can be skipped.' in output
