# SPDX-License-Identifier: Apache-2.0
"""The values and the errors of the topology file."""

import json
from pathlib import Path

import pytest

from gridstead_lab import topology
from gridstead_lab.errors import InvalidTopology

HOST = {"groups": ["controller"], "memory_mb": 512, "cores": 1}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "not an object"),
        ({}, "has no hosts"),
        ({"hosts": {}}, "has no hosts"),
        ({"hosts": {"a": HOST}, "host": 1}, "unknown key host"),
        ({"hosts": {"Upper": HOST}}, "name must match"),
        ({"hosts": {"x" * 21: HOST}}, "name must match"),
        ({"hosts": {"a": 3}}, "not an object"),
        ({"hosts": {"a": HOST | {"memory": 1}}}, "unknown key memory"),
        ({"hosts": {"a": HOST | {"memory_mb": 255}}}, "memory_mb must be"),
        ({"hosts": {"a": HOST | {"memory_mb": True}}}, "memory_mb must be"),
        ({"hosts": {"a": {"groups": [], "cores": 1}}}, "memory_mb must be"),
        ({"hosts": {"a": HOST | {"cores": 0}}}, "cores must be"),
        ({"hosts": {"a": HOST | {"cores": "2"}}}, "cores must be"),
        ({"hosts": {"a": HOST | {"groups": "controller"}}}, "must be a list of names"),
        ({"hosts": {"a": HOST | {"job_cgroups": "yes"}}}, "job_cgroups must be"),
        ({"hosts": {"a": HOST}, "groups": {"x-y": []}}, "name not allowed"),
        ({"hosts": {"a": HOST}, "groups": []}, "not an object"),
        ({"hosts": {"a": HOST}, "network": "10.0.0.0/16"}, "must be a /24"),
        ({"hosts": {"a": HOST}, "network": "10.0.0.5/24"}, "network"),
        ({"hosts": {f"h{i}": HOST for i in range(201)}}, "at most 200"),
        ({"hosts": {"a": HOST}, "image": "fat"}, "image must be prepared or plain"),
    ],
)
def test_an_invalid_topology_is_refused(raw, message):
    with pytest.raises(InvalidTopology, match=message):
        topology.parse(json.dumps(raw))


def test_text_that_is_not_json_is_refused():
    with pytest.raises(InvalidTopology, match="not JSON"):
        topology.parse("{")


def test_hosts_are_in_the_order_of_the_file():
    text = json.dumps(
        {
            "hosts": {"z": HOST, "a": HOST | {"groups": ["login"]}},
            "groups": {"slurm": ["controller", "compute"]},
        }
    )

    parsed_topology = topology.parse(text)

    assert parsed_topology.names() == ("z", "a")
    assert parsed_topology.members() == {"controller": ["z"], "compute": [], "login": ["a"]}


def test_the_default_topology_has_the_hosts_that_the_e2e_tests_use():
    text = Path("molecule/lab/topology.json").read_text()

    parsed_topology = topology.parse(text)

    assert parsed_topology.names() == (
        "controller",
        "db",
        "login",
        "compute1",
        "compute2",
        "infra",
        "control",
    )
    assert [host.name for host in parsed_topology.hosts if host.job_cgroups] == [
        "compute1",
        "compute2",
    ]


def test_the_small_molecule_lab_has_every_group_of_the_default_lab():
    default_topology = topology.parse(Path("molecule/lab/topology.json").read_text())

    small_topology = topology.parse(Path("molecule/default/topology.json").read_text())

    assert small_topology.groups == default_topology.groups
    assert used_groups(small_topology) >= used_groups(default_topology)


def used_groups(lab):
    """Return the groups of a topology that have hosts."""
    return {name for name, hosts in lab.members().items() if hosts}


def test_a_subset_has_all_groups_and_only_the_chosen_hosts():
    whole_topology = topology.parse(
        json.dumps({"hosts": {"a": HOST, "b": HOST}, "groups": {"slurm": ["controller"]}})
    )

    chosen_part = topology.subset(whole_topology, ["b"])

    assert chosen_part.names() == ("b",)
    assert chosen_part.groups == whole_topology.groups
    assert chosen_part.digest() != whole_topology.digest()


@pytest.mark.parametrize(("names", "message"), [(["a", "c"], "no host c"), ([], "no hosts chosen")])
def test_a_subset_with_unknown_hosts_or_without_hosts_is_refused(names, message):
    whole_topology = topology.parse(json.dumps({"hosts": {"a": HOST}}))

    with pytest.raises(InvalidTopology, match=message):
        topology.subset(whole_topology, names)


def test_the_digest_is_the_same_for_the_same_topology():
    text = json.dumps({"hosts": {"a": HOST}})

    assert topology.parse(text).digest() == topology.parse(text).digest()
