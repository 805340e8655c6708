# SPDX-License-Identifier: Apache-2.0
"""The rules about networks in a workflow, and the messages about invalid networks."""

from __future__ import annotations

import pytest
from tests.unit.workflow.networks import KEY, NETWORKS, TUNNEL, step, vnet_interface
from tests.unit.workflow.node import workflow
from tests.unit.workflow.strategies import problems_of

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
def test_an_invalid_network_is_refused(run, expected):
    (problem,) = problems_of(lambda: workflow({"run": {"command": "x", **run}}))

    assert expected in str(problem)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"privateKey": "x"}, "privateKey: is not a WireGuard key"),
        ({"privateKey": KEY + "\n"}, "privateKey: is not a WireGuard key"),
        ({"address": ["10.0.0.1"]}, "is not an address with a prefix length"),
        ({"address": ["10.0.0.1/24\nPostUp = x"]}, "is not an address with a prefix length"),
        ({"address": ["10.0.0.1/33"]}, "is not an address with a prefix length"),
        ({"peers": [{"publicKey": KEY, "endpoint": "a"}]}, "is not a host with a port"),
        ({"peers": [{"publicKey": KEY, "endpoint": "a:99999"}]}, "is not a host with a port"),
        ({"peers": [{"publicKey": KEY, "endpoint": "a:1\nx"}]}, "is not a host with a port"),
        ({"peers": [{"publicKey": KEY, "allowedIPs": ["x"]}]}, "allowedIPs[0]: is not an address"),
        ({"peers": [{"publicKey": KEY, "persistentKeepalive": -1}]}, "must be at least 0"),
    ],
)
def test_an_invalid_tunnel_is_refused(fields, expected):
    (problem,) = problems_of(lambda: workflow(step("x", {"wireguard": {**TUNNEL, **fields}})))

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
        ({"address": "a,b", "port": 1}, "is not a host name or an IP address"),
        ({"boreAddress": "b:2", "secret": "a\nb"}, "secret: contains a character"),
        ({"boreAddress": "b:2", "targetPort": 0}, "must be at least 1"),
    ],
)
def test_an_invalid_bore_interface_is_refused(fields, expected):
    (problem,) = problems_of(lambda: workflow(step("x", {"bore": {"targetPort": 80, **fields}})))

    assert expected in str(problem)


@pytest.mark.parametrize(
    ("name", "address", "expected"),
    [
        ("c", "10.9.0.2/24", "vnet.name: is not the name of a virtual network"),
        (
            "b",
            "10.9.0.2/24",
            "vnet.address: is not a free address of b, whose gateway is 10.10.0.1/16",
        ),
        ("b", "10.10.0.1/16", "vnet.address: is not a free address of b"),
    ],
)
def test_an_interface_must_belong_to_a_network_of_the_job(name, address, expected):
    (problem,) = problems_of(
        lambda: workflow(step("x", vnet_interface(name, address)), virtualNetworks=NETWORKS)
    )

    assert expected in str(problem)


def test_a_duplicate_network_name_is_refused():
    (problem,) = problems_of(lambda: workflow("x", virtualNetworks=[NETWORKS[0]] * 2))

    assert str(problem) == "virtualNetworks[1].name: is already the name of another network"


def test_a_field_without_effect_on_the_host_network_causes_a_warning():
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
- use:
    source: git.x/a/m
    steps:
    - run: {command: x, dns: [1.1.1.1]}
"""
    warning, warning_in_use = check_workflow(text).warnings

    assert str(warning) == (
        "line 7: steps[0].launch.steps[0].run.dns: has no effect on the host network"
    )
    assert warning_in_use.path == "steps[1].use.steps[0].run.dns"
    with pytest.raises(InvalidWorkflow, match="has no effect on the host network"):
        check_workflow(text, strict=True)
