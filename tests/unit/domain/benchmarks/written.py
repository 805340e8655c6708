# SPDX-License-Identifier: Apache-2.0
"""Outputs of programs that Debian does not have, written by hand after their formats."""

from gridstead.domain.benchmarks.outputs.messages import LARGEST_ALL_TO_ALL_SIZE, LARGEST_SIZE


def osu(title, column, largest_size, *, first_value="1.50", last_value="100.25"):
    """Return a table of an OSU micro-benchmark, version 7.5."""
    rows = ["", f"# {title} v7.5", "# Datatype: MPI_CHAR.", f"# Size       {column}"]
    size = 1
    while size < largest_size:
        rows.append(f"{size:<10} {first_value:>20}")
        size *= 2
    return "\n".join([*rows, f"{size:<10} {last_value:>20}", ""])


OSU_LATENCY = osu("OSU MPI Latency Test", "Latency (us)", LARGEST_SIZE)
OSU_BANDWIDTH = osu(
    "OSU MPI Bandwidth Test", "Bandwidth (MB/s)", LARGEST_SIZE, last_value="12000.50"
)
OSU_BIDIRECTIONAL = osu(
    "OSU MPI Bi-Directional Bandwidth Test", "Bandwidth (MB/s)", LARGEST_SIZE, last_value="20000.00"
)
OSU_ALL_TO_ALL = osu(
    "OSU MPI All-to-All Personalized Exchange Latency Test",
    "Avg Latency(us)",
    LARGEST_ALL_TO_ALL_SIZE,
    first_value="7.25",
)
IOR_COLUMNS = (
    "access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),"
    "numTasks,iter"
)


def ior(*bandwidths, iterations=5):
    """Return the CSV of IOR 4 with the bandwidths of writes and of reads, MiB/s."""
    rows = [IOR_COLUMNS]
    for iteration in range(iterations):
        for access, bandwidth in zip(("write", "read"), bandwidths, strict=True):
            mibps = bandwidth + iteration
            rows.append(
                f"{access},{mibps:.4f},{mibps / 2:.4f},0.0123,1048576.0000,2048.0000,0.0012,"
                f"10.2345,0.0004,10.2361,16,{iteration}"
            )
    return "\n".join([*rows, ""])


IOR = ior(1000, 3000)
HPL_AI = """\
================================================================================
HPL-AI  --  run on 4 GPUs
HPL_AI WC02R2C32 80000 512 2 2 12.34 27660.00 1.50 3 24640.50
HPL_AI WC02R2C32 100000 512 2 2 22.34 29840.00 2.50 3 26900.25
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0062163 ...... PASSED
"""
GPU_NAMES = "NVIDIA A100-SXM4-40GB\n" * 4
OOKLA = """\
{"type":"result","timestamp":"2026-11-28T17:52:52Z","ping":{"jitter":0.1,"latency":3.2},
"download":{"bandwidth":117187500,"bytes":1100000000,"elapsed":9000},
"upload":{"bandwidth":58593750,"bytes":550000000,"elapsed":9000},"packetLoss":0}
"""
