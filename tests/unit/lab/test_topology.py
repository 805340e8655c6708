# SPDX-License-Identifier: Apache-2.0
"""The topology file as values, and its errors."""

import json
from pathlib import Path

import pytest

from gridstead_lab import topology
from gridstead_lab.errors import InvalidTopology

ONE = {"groups": ["controller"], "memory_mb": 512, "cores": 1}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ([], "not an object"),
        ({}, "has no hosts"),
        ({"hosts": {}}, "has no hosts"),
        ({"hosts": {"a": ONE}, "host": 1}, "unknown key host"),
        ({"hosts": {"Upper": ONE}}, "name must match"),
        ({"hosts": {"x" * 21: ONE}}, "name must match"),
        ({"hosts": {"a": 3}}, "not an object"),
        ({"hosts": {"a": ONE | {"memory": 1}}}, "unknown key memory"),
        ({"hosts": {"a": ONE | {"memory_mb": 255}}}, "memory_mb must be"),
        ({"hosts": {"a": ONE | {"memory_mb": True}}}, "memory_mb must be"),
        ({"hosts": {"a": {"groups": [], "cores": 1}}}, "memory_mb must be"),
        ({"hosts": {"a": ONE | {"cores": 0}}}, "cores must be"),
        ({"hosts": {"a": ONE | {"cores": "2"}}}, "cores must be"),
        ({"hosts": {"a": ONE | {"groups": "controller"}}}, "must be a list of names"),
        ({"hosts": {"a": ONE | {"job_cgroups": "yes"}}}, "job_cgroups must be"),
        ({"hosts": {"a": ONE}, "groups": {"x-y": []}}, "name not allowed"),
        ({"hosts": {"a": ONE}, "groups": []}, "not an object"),
        ({"hosts": {"a": ONE}, "network": "10.0.0.0/16"}, "must be a /24"),
        ({"hosts": {"a": ONE}, "network": "10.0.0.5/24"}, "network"),
        ({"hosts": {f"h{i}": ONE for i in range(201)}}, "at most 200"),
        ({"hosts": {"a": ONE}, "image": "fat"}, "image must be prepared or plain"),
    ],
)
def test_a_wrong_topology_is_refused_with_its_place(raw, words):
    with pytest.raises(InvalidTopology, match=words):
        topology.parse(json.dumps(raw))


def test_text_that_is_not_json_is_refused():
    with pytest.raises(InvalidTopology, match="not JSON"):
        topology.parse("{")


def test_hosts_keep_their_order_and_groups_list_their_hosts():
    text = json.dumps(
        {
            "hosts": {"z": ONE, "a": ONE | {"groups": ["login"]}},
            "groups": {"slurm": ["controller", "compute"]},
        }
    )

    found = topology.parse(text)

    assert found.names() == ("z", "a")
    assert found.members() == {"controller": ["z"], "compute": [], "login": ["a"]}


def test_the_default_topology_holds_the_hosts_everything_else_names():
    text = Path("molecule/lab/topology.json").read_text()

    found = topology.parse(text)

    assert found.names() == (
        "controller",
        "db",
        "login",
        "compute1",
        "compute2",
        "infra",
        "control",
    )
    assert [host.name for host in found.hosts if host.job_cgroups] == ["compute1", "compute2"]


def test_the_small_lab_of_molecule_has_every_group_of_the_default_one():
    default = topology.parse(Path("molecule/lab/topology.json").read_text())

    small = topology.parse(Path("molecule/default/topology.json").read_text())

    assert small.groups == default.groups
    assert {name for name, hosts in small.members().items() if hosts} >= {
        name for name, hosts in default.members().items() if hosts
    }


def test_a_subset_keeps_the_groups_and_drops_the_other_hosts():
    whole = topology.parse(
        json.dumps({"hosts": {"a": ONE, "b": ONE}, "groups": {"slurm": ["controller"]}})
    )

    part = topology.subset(whole, ["b"])

    assert part.names() == ("b",)
    assert part.groups == whole.groups
    assert part.digest() != whole.digest()


@pytest.mark.parametrize(("names", "words"), [(["a", "c"], "no host c"), ([], "no hosts chosen")])
def test_a_subset_of_unknown_or_no_hosts_is_refused(names, words):
    whole = topology.parse(json.dumps({"hosts": {"a": ONE}}))

    with pytest.raises(InvalidTopology, match=words):
        topology.subset(whole, names)


def test_the_digest_is_the_same_for_the_same_topology():
    text = json.dumps({"hosts": {"a": ONE}})

    assert topology.parse(text).digest() == topology.parse(text).digest()
