# SPDX-License-Identifier: Apache-2.0
"""Bandwidth and operations of storage: fio, or IOR where it is installed.

Each file is written, synchronised and read in operations of 2 MiB. fio runs once on each node, at
the same time on all nodes for a shared directory. IOR runs on all nodes as one MPI program, and
prints MiB/s (2^20 bytes per second).

All sizes in the job file of fio are bytes, because fio reads ``64MiB`` as 64,000,000 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from gridstead.domain.benchmarks.outputs.reading import Output, median, number_label
from gridstead.domain.jobs.job import Label

OPERATION_BYTES = 2 * 2**20
DEFAULT_SIZE_MIB = 10 * 1024
IOR_ITERATIONS = 5
_BYTES_PER_MIB = 2**20
NODE_DIRECTORIES = ("disk-tmp", "disk-world-tmp")
_FIO_JOBS = ("write", "read")
_FIO_FILE = """\
[global]
directory={directory}
size={size_bytes}
blocksize={operation_bytes}
ioengine=psync
direct=0
invalidate=1
end_fsync=1
unlink=0
filename=gridstead-benchmark

[write]
rw=write
stonewall

[read]
rw=read
stonewall
unlink=1
"""
_IOR_COLUMNS = (
    "access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),"
    "numTasks,iter"
)
_XFER_COLUMN = 5
_XFER_KIB = OPERATION_BYTES // 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageResult:
    """What one run measured. Bandwidths are MiB/s, and operations are operations per second."""

    read_mibps: Decimal
    read_iops: Decimal
    write_mibps: Decimal
    write_iops: Decimal


def render_fio(directory: str, *, size_mib: int = DEFAULT_SIZE_MIB) -> str:
    """Return a job file of fio.

    Args:
        directory: An existing directory of this run on this node, without ``:`` and line ends.
        size_mib: The size of the file, an even number.
    """
    return _FIO_FILE.format(
        directory=directory,
        size_bytes=size_mib * _BYTES_PER_MIB,
        operation_bytes=OPERATION_BYTES,
    )


def parse_fio(text: str, *, size_mib: int = DEFAULT_SIZE_MIB) -> StorageResult:
    """Return the results of a run of fio with ``--output-format=json``.

    Args:
        text: The output.
        size_mib: The size of the file in the job file.

    Raises:
        UnusableOutput: If the output is incomplete, a job failed, or the file has another size.
    """
    output = Output("fio", text)
    document = output.json()
    output.field(document, "fio version")
    jobs = output.field(document, "jobs")
    if not isinstance(jobs, list) or len(jobs) != len(_FIO_JOBS):
        raise output.error("it does not have a job 'write' and a job 'read'")
    figures = []
    for name, job in zip(_FIO_JOBS, jobs, strict=True):
        if output.field(job, "jobname") != name:
            raise output.error(f"job {name!r} is missing")
        if output.field(job, "error") != "0":
            raise output.error(f"job {name!r} failed")
        figures += _fio_figures(output, output.field(job, name), size_mib)
    write_mibps, write_iops, read_mibps, read_iops = figures
    return StorageResult(
        read_mibps=read_mibps, read_iops=read_iops, write_mibps=write_mibps, write_iops=write_iops
    )


def _fio_figures(output: Output, access: object, size_mib: int) -> list[Decimal]:
    """Return the bandwidth in MiB/s and the operations per second of one kind of access."""
    moved_bytes = output.number_field(access, "io_bytes")
    if moved_bytes != size_mib * _BYTES_PER_MIB:
        raise output.error(f"io_bytes is {moved_bytes}, not the {size_mib} MiB of the file")
    bytes_per_s = output.number_field(access, "bw_bytes")
    return [bytes_per_s / _BYTES_PER_MIB, output.number_field(access, "iops")]


def parse_ior(text: str, *, iterations: int = IOR_ITERATIONS) -> StorageResult:
    """Return the mean results of a run of IOR with ``-O summaryFormat=CSV`` and ``-t 2m``.

    Args:
        text: The output.
        iterations: How often IOR writes and reads the file.

    Raises:
        UnusableOutput: If the output is not that of this number of iterations.
    """
    output = Output("IOR", text)
    columns, *rows = output.lines() or [""]
    if columns != _IOR_COLUMNS:
        raise output.error("the line with the names of the columns is missing")
    figures: dict[str, list[tuple[Decimal, Decimal]]] = {"write": [], "read": []}
    for row in rows:
        cells = row.split(",")
        if len(cells) != len(_IOR_COLUMNS.split(",")) or cells[0] not in figures:
            raise output.error(f"{row[:80]!r} is not a row of a write or a read")
        if output.number(cells[_XFER_COLUMN], "xfer(KiB)") != _XFER_KIB:
            raise output.error(f"xfer(KiB) is {cells[_XFER_COLUMN][:40]}, not {_XFER_KIB}")
        figure = (output.number(cells[1], "bw(MiB/s)"), output.number(cells[2], "IOPS"))
        figures[cells[0]].append(figure)
    for access, measured in figures.items():
        if len(measured) != iterations:
            raise output.error(f"it has {len(measured)} rows of access {access}, not {iterations}")
    write_mibps, write_iops = _means(figures["write"])
    read_mibps, read_iops = _means(figures["read"])
    return StorageResult(
        read_mibps=read_mibps, read_iops=read_iops, write_mibps=write_mibps, write_iops=write_iops
    )


def _means(figures: Sequence[tuple[Decimal, Decimal]]) -> tuple[Decimal, Decimal]:
    bandwidths, operations = zip(*figures, strict=True)
    return sum(bandwidths) / len(figures), sum(operations) / len(figures)


def labels(directory: str, results: Sequence[StorageResult]) -> tuple[Label, ...]:
    """Return the labels of a directory.

    Args:
        directory: A key of ``STORAGE`` in ``domain/labels/keys.py``.
        results: The results of each node, or one result of all nodes. At least one. The results of
            a shared directory are added. Of directories on the disks of nodes, the median counts.
    """
    combine = median if directory in NODE_DIRECTORIES else sum
    figures = {
        "read.bw.mibps": [result.read_mibps for result in results],
        "read.iops": [result.read_iops for result in results],
        "write.bw.mibps": [result.write_mibps for result in results],
        "write.iops": [result.write_iops for result in results],
    }
    return tuple(
        number_label(f"storage.{directory}.{name}", Decimal(combine(numbers)))
        for name, numbers in figures.items()
    )
