# SPDX-License-Identifier: Apache-2.0
"""The addresses of hosts that are added to a lab."""

import pytest

from gridstead_lab import added_hosts, network, state
from gridstead_lab.errors import LabError

ADDED_OCTETS = range(network.FIRST_ADDED, network.LAST_ADDED + 1)


def lab_with_hosts(octets):
    """Return the state of a lab whose hosts have these octets."""
    return state.State(
        lab="test", prefix="gs0001", topology="", network="10.70.3.0/24", gateway="10.70.3.1",
        cgroup="v2", image=[], groups={}, members={},
        hosts={f"host{octet}": {"octet": octet} for octet in octets},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("octets", "expected"),
    [([11, 12], 240), ([11, 240, 241], 242), ([11, 241], 240), ([11, *ADDED_OCTETS[:-1]], 254)],
)
def test_an_added_host_gets_the_lowest_free_octet(octets, expected):
    assert added_hosts.free_octet(lab_with_hosts(octets)) == expected


def test_a_lab_without_a_free_address_refuses_another_host():
    with pytest.raises(LabError, match="all addresses of added hosts are in use") as caught:
        added_hosts.free_octet(lab_with_hosts([11, *ADDED_OCTETS]))

    assert "lab.py remove" in caught.value.hint
