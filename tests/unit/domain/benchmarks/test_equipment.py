# SPDX-License-Identifier: Apache-2.0
"""Tests of the choice between UCX and TCP, and between OSU and mpi4py."""

import subprocess

import pytest

from gridstead.domain.benchmarks.equipment import (
    COMMANDS,
    OSU_PROGRAMS,
    NetworkOptions,
    NodeEquipment,
    Ucx,
    combine,
    parse,
)
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput

RDMA = NodeEquipment(has_rdma=True, has_osu=True)
PLAIN = NodeEquipment(has_rdma=False, has_osu=False)


@pytest.mark.parametrize(
    ("states", "has_rdma"),
    [
        ("", False),
        ("1: DOWN\n", False),
        ("2: INIT\n3: ARMED\n", False),
        ("1: DOWN\n4: ACTIVE\n", True),
        ("5: ACTIVE_DEFER\n", False),
    ],
)
def test_a_node_has_rdma_if_a_port_is_active(states, has_rdma):
    assert parse(states) == NodeEquipment(has_rdma=has_rdma, has_osu=False)


def test_a_node_has_osu_if_it_has_all_programs():
    lines = [f"program {program}\n" for program in OSU_PROGRAMS]

    assert parse("".join(lines)).has_osu
    assert not parse("".join(lines[1:])).has_osu


@pytest.mark.parametrize("text", ["4: ACTIVE", "cat: error\n", "9: ACTIVE\n"])
def test_other_output_is_refused(text):
    with pytest.raises(UnusableOutput):
        parse(text)


def test_the_commands_print_what_the_parser_reads(tmp_path):
    for program in OSU_PROGRAMS:
        (tmp_path / program).touch(mode=0o755)
    commands = "\n".join(("set -euo pipefail", f"PATH={tmp_path}:$PATH", *COMMANDS))

    result = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, check=True)

    assert parse(result.stdout).has_osu


@pytest.mark.parametrize(
    ("ucx", "nodes", "transport"),
    [
        (Ucx.AUTO, {"n1": RDMA, "n2": RDMA}, "ucx: all nodes have an active RDMA port"),
        (Ucx.AUTO, {"n1": RDMA, "n2": PLAIN}, "tcp: n2 has no active RDMA port"),
        (
            Ucx.AUTO,
            {"n1": None, "n2": RDMA},
            "tcp: it is not known whether n1 has an active RDMA port",
        ),
        (Ucx.ON, {"n1": PLAIN}, "ucx: the setting ucx is on"),
        (Ucx.OFF, {"n1": RDMA}, "tcp: the setting ucx is off"),
    ],
)
def test_ucx_is_used_if_all_nodes_have_rdma_or_the_operator_wants_it(ucx, nodes, transport):
    equipment = combine(NetworkOptions(ucx=ucx), nodes)

    assert equipment.transport == transport
    assert equipment.uses_ucx == transport.startswith("ucx")


@pytest.mark.parametrize(
    ("nodes", "has_osu"),
    [
        ({"n1": RDMA, "n2": RDMA}, True),
        ({"n1": RDMA, "n2": PLAIN}, False),
        ({"n1": RDMA, "n2": None}, False),
    ],
)
def test_osu_is_used_if_all_nodes_have_it(nodes, has_osu):
    assert combine(NetworkOptions(), nodes).has_osu == has_osu
