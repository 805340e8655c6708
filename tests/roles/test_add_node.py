# SPDX-License-Identifier: Apache-2.0
"""A node that joins gets what site.yml gives to nodes."""

import yaml
from tests.roles.catalogue import ROOT
from tests.roles.conftest import roles_of

ADD_NODE = ROOT / "playbooks/add_node.yml"
NEW = "add_node_new"


def plays(path):
    """Return the plays of a playbook and of those that it imports."""
    for play in yaml.safe_load(path.read_text()):
        imported = play.get("ansible.builtin.import_playbook")
        yield from plays(path.parent / imported) if imported else [play]


def test_every_role_that_site_yml_has_for_nodes_is_given_to_new_ones(site):
    wanted, given = set(), set()
    for play in plays(ROOT / "playbooks/site.yml"):
        if "compute1" in [host.name for host in site.inventory.get_hosts(play["hosts"])]:
            wanted |= roles_of(play)
    for play in plays(ADD_NODE):
        if NEW in play["hosts"].split(":"):
            given |= roles_of(play)

    assert given - {None} == wanted - {None}


def test_no_play_of_it_names_the_nodes_that_are_there():
    named = {part.strip("&!") for play in plays(ADD_NODE) for part in play["hosts"].split(":")}

    assert named.isdisjoint({"slurm_compute", "slurm", "storage_clients", "sssd_clients"})
    assert [play["name"] for play in plays(ADD_NODE) if play["hosts"].startswith("all")] == [
        "Make sure that no host is left out",
        "Check the inventory",
    ]
