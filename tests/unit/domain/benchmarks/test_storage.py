# SPDX-License-Identifier: Apache-2.0
"""Tests of the inputs and outputs of fio and IOR."""

from decimal import Decimal

import pytest
from tests.unit.domain.benchmarks.recorded_outputs import FIO_SIZE_MIB, recorded
from tests.unit.domain.benchmarks.written import IOR, IOR_COLUMNS, ior

from gridstead.domain.benchmarks.outputs.reading import UnusableOutput
from gridstead.domain.benchmarks.outputs.storage import (
    StorageResult,
    labels,
    parse_fio,
    parse_ior,
    render_fio,
)

FIO = recorded("fio.json")


def result(read_mibps):
    mibps = Decimal(read_mibps)
    return StorageResult(
        read_mibps=mibps, read_iops=mibps / 2, write_mibps=Decimal(10), write_iops=Decimal(5)
    )


def test_recorded_run_of_fio():
    measured = parse_fio(FIO, size_mib=FIO_SIZE_MIB)

    assert measured.write_mibps == Decimal(69255793) / 2**20
    assert measured.write_iops == Decimal("33.023736")
    assert measured.read_mibps == Decimal(729444173) / 2**20
    assert measured.read_iops == Decimal("347.826087")


def test_sizes_in_the_job_file_are_bytes():
    """fio reads 64MiB as 64,000,000 bytes."""
    text = render_fio("/mnt/scratch/x", size_mib=64)

    assert "\ndirectory=/mnt/scratch/x\nsize=67108864\nblocksize=2097152\n" in text


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"fio version"', '"version"', "fio version is missing"),
        ('"jobs"', '"job"', "jobs is missing"),
        ('"jobs" : [', '"jobs" : [7, ', "a job 'write' and a job 'read'"),
        ('"jobname" : "write"', '"jobname" : "w"', "job 'write' is missing"),
        ('"error" : 0', '"error" : 28', "job 'write' failed"),
        ('"io_bytes" : 67108864', '"io_bytes" : 64000000', "not the 64 MiB of the file"),
        ('"bw_bytes" : 69255793', '"bw_bytes" : 0', "cannot be a measured value"),
        ('"bw_bytes" : 69255793', '"bw_bytes" : NaN', "not a number"),
    ],
)
def test_output_of_a_failed_or_another_run_is_refused(old, new, reason):
    assert old in FIO
    with pytest.raises(UnusableOutput, match=reason):
        parse_fio(FIO.replace(old, new, 1), size_mib=FIO_SIZE_MIB)


def test_figures_of_ior_are_the_means_of_its_iterations():
    assert parse_ior(IOR) == StorageResult(
        read_mibps=Decimal(3002),
        read_iops=Decimal(1501),
        write_mibps=Decimal(1002),
        write_iops=Decimal(501),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the last line is incomplete"),
        ("\n", "names of the columns is missing"),
        (IOR_COLUMNS + "\n", "it has 0 rows of access write, not 5"),
        (ior(1, 2, iterations=4), "it has 4 rows of access write, not 5"),
        (ior(1, 2, iterations=6), "it has 6 rows of access write, not 5"),
        (IOR.replace("read,", "remove,"), "is not a row of a write or a read"),
        (IOR.replace(",16,", ","), "is not a row of a write or a read"),
        (IOR.replace(",2048.0000,", ",1024.0000,"), "is 1024.0000, not 2048"),
    ],
)
def test_other_output_of_ior_is_refused(text, reason):
    with pytest.raises(UnusableOutput, match=reason):
        parse_ior(text)


def test_results_of_nodes_are_added_for_a_shared_directory():
    measured = labels("scratch", [result(100), result(300), result(800)])

    assert [(label.key, label.value) for label in measured] == [
        ("storage.scratch.read.bw.mibps", "1200.00"),
        ("storage.scratch.read.iops", "600.00"),
        ("storage.scratch.write.bw.mibps", "30.00"),
        ("storage.scratch.write.iops", "15.00"),
    ]


@pytest.mark.parametrize(("speeds", "median"), [((100, 300, 800), "300.00"), ((1, 3), "2.00")])
def test_median_counts_for_the_disks_of_nodes(speeds, median):
    measured = labels("disk-tmp", [result(speed) for speed in speeds])

    assert (measured[0].key, measured[0].value) == ("storage.disk-tmp.read.bw.mibps", median)
