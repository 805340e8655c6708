# SPDX-License-Identifier: Apache-2.0
"""Tests of the outputs of librespeed-cli, iperf3 and Ookla's speedtest."""

from decimal import Decimal

import pytest
from tests.unit.domain.benchmarks.recorded_outputs import recorded
from tests.unit.domain.benchmarks.written import OOKLA

from gridstead.domain.benchmarks.outputs.internet import (
    InternetResult,
    labels,
    parse_iperf3,
    parse_librespeed,
    parse_ookla,
)
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput

UP, DOWN = recorded("iperf3-up.json"), recorded("iperf3-down.json")


def test_librespeed_prints_mbit():
    assert parse_librespeed(recorded("librespeed.json")) == InternetResult(
        upload_mbps=Decimal("3324.56"), download_mbps=Decimal("953.73")
    )


def test_bits_of_iperf3_become_mbit():
    measured = parse_iperf3(UP, DOWN)

    assert measured.upload_mbps == Decimal("4980.992393826128")
    assert [label.key for label in labels(measured)] == [
        "network.download.bw.mbps", "network.upload.bw.mbps",
    ]  # fmt: skip
    assert labels(measured)[1].value == "4980.99"


def test_bytes_of_ookla_become_mbit():
    """117,187,500 bytes per second are 937.5 Mbit/s."""
    assert parse_ookla(OOKLA) == InternetResult(
        upload_mbps=Decimal("468.75"), download_mbps=Decimal("937.5")
    )


def test_failed_connection_is_refused_with_its_reason():
    with pytest.raises(UnusableOutput, match="it reports 'unable to connect to server"):
        parse_iperf3(recorded("iperf3-refused.json"), DOWN)


def test_direction_of_iperf3_is_checked():
    with pytest.raises(UnusableOutput, match="reverse is not 0"):
        parse_iperf3(DOWN, DOWN)
    with pytest.raises(UnusableOutput, match="reverse is not 1"):
        parse_iperf3(UP, UP)


@pytest.mark.parametrize("text", ["[]", "[{}, {}]", "{}", "null", "["])
def test_other_output_of_librespeed_is_refused(text):
    with pytest.raises(UnusableOutput, match=r"one server|not complete JSON"):
        parse_librespeed(text)


def test_error_of_ookla_is_refused():
    with pytest.raises(UnusableOutput, match="type is not result"):
        parse_ookla(OOKLA.replace('"result"', '"log"'))
