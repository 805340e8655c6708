# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the networks, in the allowed flows and in the ports of services."""

from __future__ import annotations

from tests.roles.mistakes.table import Mistakes, caused_by_earlier_entry

FLOWS_AND_NETWORKS: Mistakes = {
    "flow-to-nowhere": (
        lambda inventory: inventory.set_variables(
            gridstead_extra_flows=[{"what": "x", "to": ["slurm_computes"], "from": ["anyone"]}, 5]
        ),
        ("gridstead_extra_flows, number 1", '"slurm_computes" is not a group'),
    ),
    "flow-is-a-number": (
        caused_by_earlier_entry,
        ("gridstead_extra_flows, number 2", '"5" is not a flow'),
    ),
    "ssh-from-nowhere": (
        lambda inventory: inventory.set_variables(gridstead_ssh_from=["10.64.2.0/33"]),
        ("gridstead_flows, number 1", "flow ssh", '"10.64.2.0/33" is not a group, an address'),
    ),
    "invalid-network": (
        lambda inventory: inventory.set_variables(
            gridstead_networks={"slurm_compute": ["10.64.2.1/24"], "slurm_login": ["10.64.2.64/27"]}
        ),
        ("gridstead_networks.slurm_compute", "10.64.2.1/24 has host bits set"),
    ),
    "node-outside-its-network": (
        caused_by_earlier_entry,
        (
            "gridstead_networks.slurm_login: address 10.64.2.12",
            "of host login is not in 10.64.2.64/27",
        ),
    ),
}

CVMFS_PORT_CONFLICT: Mistakes = {
    "replica-beside-gateway": (
        lambda inventory: (
            inventory.set_group("cvmfs_replica", "control"),
            inventory.set_variables(cvmfs_listen="0.0.0.0:9443"),
        ),
        (
            "host control, port 9443/tcp",
            "Traefik (traefik_grpc_port) and by gridstead cvmfs (cvmfs_listen)",
        ),
    ),
}

APACHE_PORT_CONFLICT: Mistakes = {
    "replica-of-cern": (
        lambda inventory: (
            inventory.set_group("cvmfs_replica", "control"),
            inventory.set_variables(cvmfs_provider="cern"),
        ),
        ("host control, port 80/tcp", "Traefik and by Apache (cvmfs_provider)"),
    ),
}
