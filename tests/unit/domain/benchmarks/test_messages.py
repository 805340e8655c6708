# SPDX-License-Identifier: Apache-2.0
"""Tests of the outputs of the OSU micro-benchmarks and of mpi4py."""

from decimal import Decimal

import pytest
from tests.unit.domain.benchmarks.recorded_outputs import recorded
from tests.unit.domain.benchmarks.written import (
    OSU_ALL_TO_ALL,
    OSU_BANDWIDTH,
    OSU_BIDIRECTIONAL,
    OSU_LATENCY,
)

from gridstead.domain.benchmarks.outputs.messages import (
    ALL_TO_ALL_SCRIPT,
    PointToPoint,
    labels,
    parse_all_to_all,
    parse_osu,
    parse_pingpong,
)
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput

PINGPONG = recorded("pingpong.txt")
MEASURED = PointToPoint(latency_us=Decimal("1.5"), bandwidth_mbps=Decimal(96004))


def test_osu_latency_is_that_of_8_bytes_and_bandwidth_is_in_mbit():
    """12,000.5 MB/s are 96,004 Mbit/s. The last row of the latencies is 100.25."""
    assert parse_osu(OSU_LATENCY, OSU_BANDWIDTH) == MEASURED


def test_half_of_the_bidirectional_bandwidth_counts():
    assert parse_osu(OSU_LATENCY, OSU_BIDIRECTIONAL).bandwidth_mbps == 80000


def test_recorded_pingpong():
    rows = [line.split() for line in PINGPONG.splitlines()]
    result = parse_pingpong(PINGPONG)

    assert rows[5][0] == "8"
    assert result.latency_us == Decimal(rows[5][3]) * 1000000
    assert rows[-1][0] == "4194304"
    # The program prints MB/s with two decimals.
    assert abs(result.bandwidth_mbps / 8 - Decimal(rows[-1][1])) < Decimal("0.01")


def test_all_to_all_of_osu_and_of_the_script():
    rows = [line.split() for line in recorded("alltoall.txt").splitlines()]

    assert parse_all_to_all(OSU_ALL_TO_ALL) == Decimal("7.25")
    assert rows[5][0] == "8"
    assert parse_all_to_all(recorded("alltoall.txt")) == Decimal(rows[5][1])


def test_script_is_python():
    compile(ALL_TO_ALL_SCRIPT, "alltoall.py", "exec")


def test_cluster_of_one_node_has_no_labels_about_its_network():
    assert labels(MEASURED, Decimal(7), nodes=1) == ()
    assert labels(None, None, nodes=2) == ()
    assert [label.value for label in labels(MEASURED, Decimal(7), nodes=2)] == [
        "96004.00", "1.50", "7.00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("# OSU MPI Latency", "# OSU MPI Other", "the line '# OSU MPI Latency Test' is missing"),
        ("Latency (us)", "Latency (ms)", "the column 'Latency \\(us\\)' is missing"),
        ("\n8    ", "\n9    ", "not the powers of 2 from 1 to 4194304"),
        ("\n8    ", "\n4    ", "size 4 is there twice"),
        ("\n8    ", "\n-8    ", "a size is '-8', not an integer"),
        ("100.25", "100.25 Fail", "or its check failed"),
        ("100.25", "", "is not a row of the table"),
        ("100.25", "inf", "the value of 4194304 is 'inf', not a number"),
        ("100.25\n", "100.2", "the last line is incomplete"),
    ],
)
def test_other_tables_are_refused(old, new, reason):
    assert old in OSU_LATENCY
    with pytest.raises(UnusableOutput, match=reason):
        parse_osu(OSU_LATENCY.replace(old, new), OSU_BANDWIDTH)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("PingPong", "RingTest", "not those of the ping-pong test"),
        (" | ", " / ", "is not a row of the table"),
    ],
)
def test_other_output_of_mpi4py_is_refused(old, new, reason):
    text = PINGPONG if old != " | " else PINGPONG[:-40] + PINGPONG[-40:].replace(old, new)
    with pytest.raises(UnusableOutput, match=reason):
        parse_pingpong(text.replace(old, new, 1) if old != " | " else text)
