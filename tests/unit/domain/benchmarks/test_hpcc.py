# SPDX-License-Identifier: Apache-2.0
"""Tests of the input and output of hpcc."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.benchmarks.recorded_outputs import HPCC_RUN, recorded

from gridstead.domain.benchmarks.outputs.hpcc import (
    FULL_MEMORY_PERCENT,
    parse,
    render,
    size,
)
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput

TEXT = recorded("hpccoutf.txt")


def test_figures_of_a_recorded_run_are_read():
    result = parse(TEXT, HPCC_RUN)

    assert (result.processes, result.order) == (2, 384)
    assert result.gflops == Decimal("0.0905586")
    assert result.latency_us == Decimal("0.292097")
    assert result.bandwidth_gbytes == Decimal("0.303333")


def test_run_with_one_process_has_no_messages():
    run = size(nodes=1, processes_per_node=1, memory_per_node_mib=4, memory_percent=30)
    text = TEXT.replace("HPL_nprow=1\nHPL_npcol=2", "HPL_nprow=1\nHPL_npcol=1")
    text = text.replace("CommWorldProcs=2", "CommWorldProcs=1")
    text = "".join(
        f"{line.partition('=')[0]}=-1\n" if "PingPong" in line or "Ring" in line else line
        for line in text.splitlines(keepends=True)
    )
    result = parse(text, run)

    assert (run.order, result.latency_us, result.ring_bandwidth_gbytes) == (384, None, None)
    assert result.gflops == parse(TEXT, HPCC_RUN).gflops


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (" PASSED", " FAILED", "residual check"),
        ("1 tests completed and passed", "0 tests completed and passed", "residual check"),
        ("0 tests completed and failed", "1 tests completed and failed", "residual check"),
        ("\nSuccess=1", "\nSuccess=0", "Success is '0', not 1"),
        ("\nHPL_N=384", "\nHPL_N=1000", "HPL_N is '1000', not 384"),
        ("CommWorldProcs=2", "CommWorldProcs=1", "CommWorldProcs is '1', not 2"),
        ("\nHPL_Tflops=", "\nHPL_Tfl=", "HPL_Tflops is missing in the summary"),
        ("HPL_Tflops=9.05586e-05", "HPL_Tflops=nan", "HPL_Tflops is 'nan', not a number"),
        ("HPL_Tflops=9.05586e-05", "HPL_Tflops=0", "cannot be a measured value"),
        ("HPL_Tflops=9.05586e-05", "HPL_Tflops=1e99", "cannot be a measured value"),
        ("AvgPingPongLatency_usec=0", "AvgPingPongLatency_usec=-1", "not a number"),
        ("\nSuccess=1", "\nSuccess=1\nSuccess=1", "Success is there twice"),
        ("End of Summary section.", "", "'End of Summary section.'"),
        ("Begin of HPL section.", "", "'Begin of HPL section.'"),
    ],
)
def test_output_of_a_failed_or_another_run_is_refused(old, new, reason):
    assert old in TEXT
    with pytest.raises(UnusableOutput, match=reason):
        parse(TEXT.replace(old, new), HPCC_RUN)


def test_output_of_two_runs_is_refused():
    with pytest.raises(UnusableOutput, match="it does not have one"):
        parse(TEXT + TEXT, HPCC_RUN)


def test_size_of_a_run():
    """sqrt(0.3 x 64 GiB x 4 / 8) is 101484.6, and 528 x 192 is 101376."""
    run = size(nodes=4, processes_per_node=6, memory_per_node_mib=65536)

    assert (run.order, run.rows, run.columns) == (101376, 4, 6)
    assert "\n101376      Ns\n" in render(run)
    assert "\n4       Ps\n6    Qs\n" in render(run)


@given(
    nodes=st.integers(1, 64),
    processes=st.integers(1, 256),
    memory_mib=st.integers(1024, 2**22),
    percent=st.sampled_from([30, FULL_MEMORY_PERCENT]),
)
def test_matrix_fits_into_its_part_of_the_memory(nodes, processes, memory_mib, percent):
    run = size(
        nodes=nodes,
        processes_per_node=processes,
        memory_per_node_mib=memory_mib,
        memory_percent=percent,
    )
    memory = Decimal(nodes * memory_mib * 2**20 * percent) / 100

    assert run.order % run.block_size == 0
    assert 8 * run.order**2 <= memory < 8 * (run.order + run.block_size) ** 2
    assert run.rows * run.columns == nodes * processes
    assert run.rows <= math.isqrt(nodes * processes) <= run.columns
