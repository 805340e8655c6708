# SPDX-License-Identifier: Apache-2.0
"""Rules of networks, and how it is told that one is broken."""

from __future__ import annotations

import pytest
from tests.unit.workflow.networks import KEY, NETWORKS, TUNNEL, end, step
from tests.unit.workflow.node import workflow
from tests.unit.workflow.strategies import refusal

from gridstead.errors import InvalidWorkflow
from gridstead.workflow.parse import check_workflow


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({"network": "bridge"}, "network: must be 'host', 'slirp4netns' or 'pasta'"),
        ({"dns": ["1.1.1"]}, "dns[0]: is not an IP address"),
        ({"dns": ["1.1.1.1\n"]}, "dns[0]: is not an IP address"),
        ({"dns": ["fe80::1%$(x)"]}, "dns[0]: is not an IP address"),
        ({"dns": ["1.1.1.1"] * 4}, "dns: has more than 3 entries"),
        ({"customNetworkInterfaces": [{}]}, "needs one of wireguard, bore and vnet"),
        (
            {
                "customNetworkInterfaces": [
                    {"wireguard": TUNNEL, "bore": {"boreAddress": "a:1", "targetPort": 1}}
                ]
            },
            "needs one of wireguard, bore and vnet",
        ),
    ],
)
def test_rules_of_a_network(run, expected):
    (problem,) = refusal(lambda: workflow({"run": {"command": "x", **run}}))

    assert expected in str(problem)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"privateKey": "x"}, "privateKey: is not a key of WireGuard"),
        ({"privateKey": KEY + "\n"}, "privateKey: is not a key of WireGuard"),
        ({"address": ["10.0.0.1"]}, "is not an address with the length of its network"),
        (
            {"address": ["10.0.0.1/24\nPostUp = x"]},
            "is not an address with the length of its network",
        ),
        ({"address": ["10.0.0.1/33"]}, "is not an address with the length of its network"),
        ({"peers": [{"publicKey": KEY, "endpoint": "a"}]}, "is not a host with a port"),
        ({"peers": [{"publicKey": KEY, "endpoint": "a:99999"}]}, "is not a host with a port"),
        ({"peers": [{"publicKey": KEY, "endpoint": "a:1\nx"}]}, "is not a host with a port"),
        ({"peers": [{"publicKey": KEY, "allowedIPs": ["x"]}]}, "allowedIPs[0]: is not an address"),
        ({"peers": [{"publicKey": KEY, "persistentKeepalive": -1}]}, "must be at least 0"),
    ],
)
def test_rules_of_a_tunnel(fields, expected):
    (problem,) = refusal(lambda: workflow(step("x", {"wireguard": {**TUNNEL, **fields}})))

    assert expected in str(problem)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "needs boreAddress, or address and port"),
        ({"address": "a"}, "needs boreAddress, or address and port"),
        (
            {"address": "a", "port": 1, "boreAddress": "b:2"},
            "needs boreAddress, or address and port",
        ),
        ({"boreAddress": "b:2", "port": 1}, "needs boreAddress, or address and port"),
        ({"boreAddress": "-b:2"}, "is not a host with a port"),
        ({"address": "a,b", "port": 1}, "is not the name or the address of a host"),
        ({"boreAddress": "b:2", "secret": "a\nb"}, "secret: holds a character"),
        ({"boreAddress": "b:2", "targetPort": 0}, "must be at least 1"),
    ],
)
def test_rules_of_a_port_outside(fields, expected):
    (problem,) = refusal(lambda: workflow(step("x", {"bore": {"targetPort": 80, **fields}})))

    assert expected in str(problem)


@pytest.mark.parametrize(
    ("name", "address", "expected"),
    [
        ("c", "10.9.0.2/24", "vnet.name: is the name of none of the virtualNetworks"),
        ("b", "10.9.0.2/24", "vnet.address: is no free address of b, which has 10.10.0.1/16"),
        ("b", "10.10.0.1/16", "vnet.address: is no free address of b"),
    ],
)
def test_end_is_one_of_a_network_of_the_job(name, address, expected):
    (problem,) = refusal(lambda: workflow(step("x", end(name, address)), virtualNetworks=NETWORKS))

    assert expected in str(problem)


def test_names_of_networks_are_each_one_networks():
    (problem,) = refusal(lambda: workflow("x", virtualNetworks=[NETWORKS[0]] * 2))

    assert str(problem) == "virtualNetworks[1].name: is the name of another network already"


def test_what_does_nothing_on_the_hosts_network_is_a_warning():
    text = """\
resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
steps:
- launch:
    steps:
    - run:
        command: x
        dns: [1.1.1.1]
  catch:
  - run: {command: x, network: pasta, dns: [1.1.1.1]}
"""
    (warning,) = check_workflow(text).warnings

    assert (
        str(warning)
        == "line 7: steps[0].launch.steps[0].run.dns: does nothing on the network of the host"
    )
    with pytest.raises(InvalidWorkflow, match="does nothing on the network of the host"):
        check_workflow(text, strict=True)
