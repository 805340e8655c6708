# SPDX-License-Identifier: Apache-2.0
"""HPC Challenge (hpcc): HPL, STREAM, and latency and bandwidth between processes.

hpcc reads ``hpccinf.txt`` and appends to ``hpccoutf.txt`` in its working directory. HPL solves a
dense system of N linear equations on a grid of P x Q processes, in blocks of NB x NB numbers, and
checks the residual of the solution. A result with a failed check is refused.

The numbers in the summary of hpcc have the units Tflop/s, GB/s (10^9 bytes per second) and
microseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from gridstead.domain.benchmarks.outputs.reading import Output

PROGRAM = "hpcc"
DEFAULT_MEMORY_PERCENT = 30
FULL_MEMORY_PERCENT = 80
DEFAULT_BLOCK_SIZE = 192
_BYTES_PER_NUMBER = 8
_BYTES_PER_MIB = 2**20
_GFLOPS_PER_TFLOPS = 1000
_HPL_SECTION = ("Begin of HPL section.", "End of HPL section.")
_SUMMARY_SECTION = ("Begin of Summary section.", "End of Summary section.")
_PASSED = {
    "1 tests completed and passed residual checks,",
    "0 tests completed and failed residual checks,",
}
_NOT_MEASURED = "-1"
_HPCCINF = """\
HPLinpack benchmark input file
Written by Gridstead
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{order}      Ns
1            # of NBs
{block_size} NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{rows}       Ps
{columns}    Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HpccInput:
    """The size of a run.

    Attributes:
        order: N, the number of equations.
        block_size: NB.
        rows: P, the rows of the grid of processes.
        columns: Q, at least P. P x Q is the number of processes.
    """

    order: int
    block_size: int
    rows: int
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HpccResult:
    """What hpcc measured.

    Attributes:
        processes: The number of processes.
        order: N, the number of equations.
        gflops: Speed of HPL, Gflop/s of all processes together.
        stream_gbytes: STREAM triad in all processes at a time, mean of a process, GB/s.
        latency_us: Mean time of a message of 8 bytes between two processes, microseconds. None if
            there is only one process, as for the other figures about messages.
        bandwidth_gbytes: Mean bandwidth between two processes, GB/s.
        ring_latency_us: The latency in a ring of all processes in random order.
        ring_bandwidth_gbytes: The bandwidth of a process in this ring.
    """

    processes: int
    order: int
    gflops: Decimal
    stream_gbytes: Decimal
    latency_us: Decimal | None
    bandwidth_gbytes: Decimal | None
    ring_latency_us: Decimal | None
    ring_bandwidth_gbytes: Decimal | None


def size(
    *,
    nodes: int,
    processes_per_node: int,
    memory_per_node_mib: int,
    memory_percent: int = DEFAULT_MEMORY_PERCENT,
    largest_order: int | None = None,
    block_size: int = DEFAULT_BLOCK_SIZE,
) -> HpccInput:
    """Return the size of a run whose matrix fills a part of the memory of all nodes.

    N = floor(sqrt(part x memory / 8) / NB) x NB, but at least NB. P is the largest divisor of the
    number of processes that is not above its square root.

    Args:
        nodes: How many nodes, at least 1.
        processes_per_node: How many processes on each node, usually its physical cores.
        memory_per_node_mib: The memory of the node with the least memory.
        memory_percent: The part of the memory that the matrix fills.
        largest_order: The largest N. None if only the memory limits it.
        block_size: NB.
    """
    memory = nodes * memory_per_node_mib * _BYTES_PER_MIB * memory_percent // 100
    order = math.isqrt(memory // _BYTES_PER_NUMBER)
    if largest_order is not None:
        order = min(order, largest_order)
    processes = nodes * processes_per_node
    rows = math.isqrt(processes)
    while processes % rows:
        rows -= 1
    return HpccInput(
        order=max(order // block_size, 1) * block_size,
        block_size=block_size,
        rows=rows,
        columns=processes // rows,
    )


def render(run: HpccInput) -> str:
    """Return the text of ``hpccinf.txt``."""
    return _HPCCINF.format(
        order=run.order, block_size=run.block_size, rows=run.rows, columns=run.columns
    )


def parse(text: str, run: HpccInput) -> HpccResult:
    """Return the results of a run from ``hpccoutf.txt``.

    Raises:
        UnusableOutput: If the output is incomplete, if it is from another run or from several runs,
            or if a check of hpcc failed.
    """
    summary = Summary(Output(PROGRAM, text))
    summary.check(run)
    return HpccResult(
        processes=run.rows * run.columns,
        order=run.order,
        gflops=summary.number("HPL_Tflops") * _GFLOPS_PER_TFLOPS,
        stream_gbytes=summary.number("StarSTREAM_Triad"),
        latency_us=summary.message_figure("AvgPingPongLatency_usec"),
        bandwidth_gbytes=summary.message_figure("AvgPingPongBandwidth_GBytes"),
        ring_latency_us=summary.message_figure("RandomlyOrderedRingLatency_usec"),
        ring_bandwidth_gbytes=summary.message_figure("RandomlyOrderedRingBandwidth_GBytes"),
    )


def _expected(run: HpccInput) -> dict[str, str]:
    """Return the values that the summary of a successful run must have."""
    return {
        "Success": "1",
        "CommWorldProcs": str(run.rows * run.columns),
        "HPL_N": str(run.order),
        "HPL_NB": str(run.block_size),
        "HPL_nprow": str(run.rows),
        "HPL_npcol": str(run.columns),
    }


def _section(output: Output, first_line: str, last_line: str) -> list[str]:
    """Return the lines between two lines, without spaces at their ends."""
    lines = [line.strip() for line in output.lines()]
    if lines.count(first_line) != 1 or lines.count(last_line) != 1:
        raise output.error(f"it does not have one {first_line!r} and one {last_line!r}")
    return lines[lines.index(first_line) + 1 : lines.index(last_line)]


class Summary:
    """The summary section of an output: the values by their names."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._values: dict[str, str] = {}
        for line in _section(output, *_SUMMARY_SECTION):
            name, _, value = line.partition("=")
            if name in self._values:
                raise output.error(f"{name[:80]} is there twice")
            self._values[name] = value

    def check(self, run: HpccInput) -> None:
        """Raise UnusableOutput if the output is from another run, or if a check failed."""
        for name, expected in _expected(run).items():
            value = self._value(name)
            if value != expected:
                raise self._output.error(f"{name} is {value[:40]!r}, not {expected}")
        hpl_lines = _section(self._output, *_HPL_SECTION)
        has_failed = any(line.endswith("FAILED") for line in hpl_lines)
        if has_failed or not _PASSED.issubset(hpl_lines):
            raise self._output.error("the result of HPL did not pass the residual check")

    def number(self, name: str) -> Decimal:
        """Return a measured value. Raises UnusableOutput if it is missing."""
        return self._output.number(self._value(name), name)

    def message_figure(self, name: str) -> Decimal | None:
        """Return a measured value about messages. None if there is only one process."""
        is_measured = self._value(name) != _NOT_MEASURED or self._value("CommWorldProcs") != "1"
        return self.number(name) if is_measured else None

    def _value(self, name: str) -> str:
        if name not in self._values:
            raise self._output.error(f"{name} is missing in the summary")
        return self._values[name]
