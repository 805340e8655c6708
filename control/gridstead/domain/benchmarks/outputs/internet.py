# SPDX-License-Identifier: Apache-2.0
"""Bandwidth to and from the Internet: librespeed-cli, iperf3 with a peer, or Ookla's speedtest.

librespeed-cli prints Mbit/s, iperf3 prints bit/s, and Ookla's program prints bytes per second.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from gridstead.domain.benchmarks.outputs.reading import Output, number_label
from gridstead.domain.jobs.job import Label

_BITS_PER_BYTE = 8
_BITS_PER_MBIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InternetResult:
    """Bandwidths between a site and the Internet, Mbit/s (10^6 bits per second)."""

    upload_mbps: Decimal
    download_mbps: Decimal


def parse_librespeed(text: str) -> InternetResult:
    """Return the results of ``librespeed-cli --json``, without ``--mebibytes``.

    Raises:
        UnusableOutput: If the output is not that of a test with one server.
    """
    output = Output("librespeed-cli", text)
    tests = output.json()
    if not isinstance(tests, list) or len(tests) != 1:
        raise output.error("it does not have the result of one server")
    output.field(tests[0], "bytes_received")
    return InternetResult(
        upload_mbps=output.number_field(tests[0], "upload"),
        download_mbps=output.number_field(tests[0], "download"),
    )


def parse_iperf3(upload_text: str, download_text: str) -> InternetResult:
    """Return the results of ``iperf3 --client PEER --json``, without and with ``--reverse``.

    Raises:
        UnusableOutput: If an output is not that of a complete test in its direction.
    """
    return InternetResult(
        upload_mbps=_iperf3_mbps(Output("iperf3", upload_text), reverse="0"),
        download_mbps=_iperf3_mbps(Output("iperf3 --reverse", download_text), reverse="1"),
    )


def _iperf3_mbps(output: Output, *, reverse: str) -> Decimal:
    document = output.json()
    if isinstance(document, dict) and "error" in document:
        raise output.error(f"it reports {str(document['error'])[:200]!r}")
    if output.field(document, "start", "test_start", "reverse") != reverse:
        raise output.error(f"start.test_start.reverse is not {reverse}")
    bits_per_s = output.number_field(document, "end", "sum_received", "bits_per_second")
    return bits_per_s / _BITS_PER_MBIT


def parse_ookla(text: str) -> InternetResult:
    """Return the results of ``speedtest --format=json``.

    Raises:
        UnusableOutput: If the output is not a complete result.
    """
    output = Output("speedtest", text)
    document = output.json()
    if output.field(document, "type") != "result":
        raise output.error("type is not result")
    mbps = Decimal(_BITS_PER_BYTE) / _BITS_PER_MBIT
    return InternetResult(
        upload_mbps=output.number_field(document, "upload", "bandwidth") * mbps,
        download_mbps=output.number_field(document, "download", "bandwidth") * mbps,
    )


def labels(result: InternetResult) -> tuple[Label, ...]:
    """Return the labels of a site."""
    return (
        number_label("network.download.bw.mbps", result.download_mbps),
        number_label("network.upload.bw.mbps", result.upload_mbps),
    )
