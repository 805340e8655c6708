# SPDX-License-Identifier: Apache-2.0
"""Latency and bandwidth of messages between nodes: OSU, or mpi4py where OSU is not installed.

The OSU micro-benchmarks print one row for each size of messages. Latency is the row of 8 bytes, and
bandwidth is the row of 4 MiB. Their MB/s are 10^6 bytes per second. The bandwidth of
``osu_bibw`` is the sum of both directions; half of it counts.

``python3 -m mpi4py.bench pingpong`` prints the time of a message from one process to the other.
``ALL_TO_ALL_SCRIPT`` prints a table like that of ``osu_alltoall``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from gridstead.domain.benchmarks.outputs.reading import Output, number_label
from gridstead.domain.jobs.job import Label

LATENCY_SIZE = 8
LARGEST_SIZE = 4 * 2**20  # of messages from one node to another
LARGEST_ALL_TO_ALL_SIZE = 2**16
OSU_ARGUMENTS = ("-m", f"1:{LARGEST_SIZE}")
OSU_ALL_TO_ALL_ARGUMENTS = ("-m", f"1:{LARGEST_ALL_TO_ALL_SIZE}")
PINGPONG_ARGUMENTS = (
    *("-m", "mpi4py.bench", "pingpong"),
    *("--min-size", "1", "--max-size", str(LARGEST_SIZE)),
)
_US_PER_S = 1_000_000
_LONGEST_S = Decimal(3600)  # of a message
_MBPS_PER_MBYTES = 8
_SCRIPT_TITLE = "Gridstead All-to-All Test"
ALL_TO_ALL_SCRIPT = f"""\
# The mean time of MPI_Alltoall by size of messages, in the form of osu_alltoall.
from mpi4py import MPI

world = MPI.COMM_WORLD
if world.rank == 0:
    print("# {_SCRIPT_TITLE} v1")
    print("# Size       Avg Latency(us)")
size = 1
while size <= {LARGEST_ALL_TO_ALL_SIZE}:
    sent = bytearray(size * world.size)
    received = bytearray(size * world.size)
    for _ in range(10):
        world.Alltoall(sent, received)
    rounds = 1000 if size <= 1024 else 100
    world.Barrier()
    start = MPI.Wtime()
    for _ in range(rounds):
        world.Alltoall(sent, received)
    mean_us = (MPI.Wtime() - start) / rounds * 1e6
    total_us = world.reduce(mean_us)
    if world.rank == 0:
        print(f"{{size:<10}} {{total_us / world.size:.2f}}", flush=True)
    size *= 2
"""
# The title of each test, and the name of its second column.
_LATENCY = ("OSU MPI Latency Test", "Latency (us)")
_BANDWIDTH = ("OSU MPI Bandwidth Test", "Bandwidth (MB/s)")
_BIDIRECTIONAL = ("OSU MPI Bi-Directional Bandwidth Test", "Bandwidth (MB/s)")
_ALL_TO_ALL = ("OSU MPI All-to-All Personalized Exchange Latency Test", "Avg Latency(us)")
_SCRIPT = (_SCRIPT_TITLE, "Avg Latency(us)")
_PINGPONG_TITLE = "# MPI PingPong Test"
_PINGPONG_COLUMNS = "# Size [B]  Bandwidth [MB/s] | Time Mean [s] ± StdDev [s]  Samples"
_PINGPONG_ROW = re.compile(r" *([0-9]+) +([0-9.]+) \| ([0-9.e+-]+) ± [0-9.e+-]+ +[0-9]+")

Test = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointToPoint:
    """Messages from one node to another.

    Attributes:
        latency_us: Time of a message of 8 bytes, microseconds.
        bandwidth_mbps: Bandwidth for messages of 4 MiB, Mbit/s.
    """

    latency_us: Decimal
    bandwidth_mbps: Decimal


def parse_osu(latency_text: str, bandwidth_text: str) -> PointToPoint:
    """Return the results of ``osu_latency``, and of ``osu_bw`` or ``osu_bibw``.

    Raises:
        UnusableOutput: If an output is incomplete or from another program.
    """
    latencies = _osu_table(Output("osu_latency", latency_text), _LATENCY, LARGEST_SIZE)
    is_bidirectional = _BIDIRECTIONAL[0] in bandwidth_text
    output = Output("osu_bibw" if is_bidirectional else "osu_bw", bandwidth_text)
    test, directions = (_BIDIRECTIONAL, 2) if is_bidirectional else (_BANDWIDTH, 1)
    bandwidths = _osu_table(output, test, LARGEST_SIZE)
    return PointToPoint(
        latency_us=latencies[LATENCY_SIZE],
        bandwidth_mbps=bandwidths[LARGEST_SIZE] * _MBPS_PER_MBYTES / directions,
    )


def parse_pingpong(text: str) -> PointToPoint:
    """Return the results of ``python3`` with ``PINGPONG_ARGUMENTS``.

    Raises:
        UnusableOutput: If the output is incomplete or from another program.
    """
    output = Output("mpi4py.bench pingpong", text)
    title, columns, *rows = (*output.lines(), "", "")
    if (title, columns) != (_PINGPONG_TITLE, _PINGPONG_COLUMNS):
        raise output.error("its first lines are not those of the ping-pong test")
    times_s: dict[int, Decimal] = {}
    for line in rows[:-2]:
        match = _PINGPONG_ROW.fullmatch(line)
        if match is None:
            raise output.error(f"{line[:80]!r} is not a row of the table")
        time_s = output.number(match[3], "a time", largest=_LONGEST_S)
        _add(output, times_s, output.integer(match[1], "a size"), time_s)
    _check_sizes(output, times_s, LARGEST_SIZE)
    bytes_per_s = LARGEST_SIZE / times_s[LARGEST_SIZE]
    return PointToPoint(
        latency_us=times_s[LATENCY_SIZE] * _US_PER_S,
        bandwidth_mbps=bytes_per_s * 8 / _US_PER_S,
    )


def parse_all_to_all(text: str) -> Decimal:
    """Return the time of an all-to-all exchange of messages of 8 bytes, microseconds.

    Args:
        text: The output of ``osu_alltoall`` or of ``ALL_TO_ALL_SCRIPT``.

    Raises:
        UnusableOutput: If the output is incomplete or from another program.
    """
    test = _SCRIPT if _SCRIPT_TITLE in text else _ALL_TO_ALL
    output = Output("osu_alltoall" if test is _ALL_TO_ALL else "the all-to-all script", text)
    return _osu_table(output, test, LARGEST_ALL_TO_ALL_SIZE)[LATENCY_SIZE]


def labels(
    point_to_point: PointToPoint | None, all_to_all_us: Decimal | None, *, nodes: int
) -> tuple[Label, ...]:
    """Return the labels about the network between nodes. None on a cluster of one node.

    Args:
        point_to_point: Messages from one node to another. None if they were not measured.
        all_to_all_us: Time of an all-to-all exchange of 8 bytes with one process on each node,
            microseconds. None if it was not measured.
        nodes: The number of nodes.
    """
    if nodes == 1:
        return ()
    measured = []
    if point_to_point is not None:
        measured.append(number_label("network.p2p.bw.mbps", point_to_point.bandwidth_mbps))
        measured.append(number_label("network.p2p.latency.us", point_to_point.latency_us))
    if all_to_all_us is not None:
        measured.append(number_label("network.all-to-all.latency.us", all_to_all_us))
    return tuple(measured)


def _osu_table(output: Output, test: Test, largest_size: int) -> Mapping[int, Decimal]:
    """Return the second column of a table by the first column, the size of messages in bytes."""
    title, column = test
    has_title, has_columns = False, False
    values: dict[int, Decimal] = {}
    for line in output.lines():
        if line.startswith("#"):
            has_title = has_title or line.startswith(f"# {title} v")
            has_columns = has_columns or (line.startswith("# Size") and column in line)
        elif line.strip():
            _add(output, values, *_osu_row(output, line))
    if not has_title:
        raise output.error(f"the line '# {title}' is missing")
    if not has_columns:
        raise output.error(f"the column {column!r} is missing")
    _check_sizes(output, values, largest_size)
    return values


def _osu_row(output: Output, line: str) -> tuple[int, Decimal]:
    words = line.split()
    if len(words) < 2 or "Fail" in words:
        raise output.error(f"{line[:80]!r} is not a row of the table, or its check failed")
    return output.integer(words[0], "a size"), output.number(words[1], f"the value of {words[0]}")


def _add(output: Output, values: dict[int, Decimal], size: int, value: Decimal) -> None:
    if size in values:
        raise output.error(f"size {size} is there twice")
    values[size] = value


def _check_sizes(output: Output, values: Mapping[int, Decimal], largest_size: int) -> None:
    """Raise UnusableOutput unless the sizes are the powers of 2 from 1 to the largest size."""
    sizes = [1 << exponent for exponent in range(largest_size.bit_length())]
    if list(values) != sizes:
        raise output.error(f"its sizes are not the powers of 2 from 1 to {largest_size}")
