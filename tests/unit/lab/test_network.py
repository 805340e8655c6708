# SPDX-License-Identifier: Apache-2.0
"""The choice of a lab's subnet."""

import ipaddress

import pytest

from gridstead_lab import network
from gridstead_lab.errors import LabError
from gridstead_lab.topology import MAX_HOSTS


def test_without_a_free_private_subnet_the_error_has_a_hint():
    with pytest.raises(LabError, match="no free /24") as caught:
        network.choose_subnet("gs0000", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"])

    assert '"network"' in caught.value.hint


def test_the_choice_of_a_subnet_is_repeatable():
    used = ["default", "192.0.2.0/24"]

    assert network.choose_subnet("gs12ab", used) == network.choose_subnet("gs12ab", used)


def test_the_subnet_is_in_the_first_pool_if_the_pool_is_free():
    subnet = ipaddress.ip_network(network.choose_subnet("gsffff", []))

    assert subnet.subnet_of(ipaddress.ip_network("10.64.0.0/10"))


@pytest.mark.parametrize("kind", ["network", "address", "supernet"])
def test_a_used_subnet_is_skipped(kind):
    first_subnet = ipaddress.ip_network(network.choose_subnet("gs1234", []))
    used_by_kind = {
        "network": str(first_subnet),
        "address": str(first_subnet[7]),
        "supernet": str(first_subnet.supernet(new_prefix=20)),
    }
    used = used_by_kind[kind]

    second_subnet = ipaddress.ip_network(network.choose_subnet("gs1234", [used]))

    assert not second_subnet.overlaps(ipaddress.ip_network(used))


def test_the_second_pool_is_used_if_the_first_is_routed():
    subnet = ipaddress.ip_network(network.choose_subnet("gs1234", ["10.0.0.0/8"]))

    assert subnet.subnet_of(ipaddress.ip_network("172.16.0.0/12"))


def test_default_routes_ipv6_addresses_and_words_are_ignored():
    used = ["default", "0.0.0.0/0", "fd00::1", "unreachable"]

    assert network.choose_subnet("gs1234", used) == network.choose_subnet("gs1234", [])


def test_an_address_has_the_subnet_and_the_last_octet():
    assert network.address("10.70.3.0/24", 11) == "10.70.3.11"


def test_added_hosts_have_addresses_after_the_largest_topology():
    assert network.subnet_of_added_hosts("10.70.3.0/24") == "10.70.3.240/28"
    assert network.FIRST_ADDED > network.FIRST_HOST + MAX_HOSTS
