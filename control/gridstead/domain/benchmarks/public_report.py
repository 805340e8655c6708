# SPDX-License-Identifier: Apache-2.0
"""The report of a run that a provider publishes, signed by its wallet.

It contains no names of nodes: they are numbers, in the order of their names, from 1 on. It contains
no reasons why labels are left out, because these are texts of programs, which may name hosts and
paths.

The text of a report is JSON in one form only: ASCII, without whitespace, the keys of each object in
alphabetical order, and all numbers as strings of plain decimals. The signature is an EIP-191
signature of this text. The file has both: ``{"report":...,"signature":"0x..."}`` in the same form.
The label ``benchmark.report`` is the SHA-256 of the file. A file with the same report has always
the same bytes, because the signatures of wallets do not contain random numbers (RFC 6979).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gridstead.domain.benchmarks.metrics import Metric
from gridstead.domain.benchmarks.report import PastRun, Report
from gridstead.domain.benchmarks.site import Findings
from gridstead.domain.labels.keys import provider_labels
from gridstead.errors import InvalidInput

FORMAT = "gridstead-benchmark-report-1"
MAX_BYTES = 2**20
# So deep nesting, which could overflow the stack of the reader, is refused.
MAX_BRACKETS = 500
_NO_REPORT = "the file is not a report of benchmarks"
_SIGNATURE = re.compile(r"0x(?P<digits>[0-9a-f]{130})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicReport:
    """What a client reads from the file of a report.

    Attributes:
        text: The text of the report, which the provider signed.
        signature: The signature, 65 bytes.
        format: The format of the report.
        chain_id: The chain of the provider.
        provider: The address of its wallet.
        labels: The values of the labels of the run, by their keys.
    """

    text: bytes
    signature: bytes
    format: str
    chain_id: str
    provider: str
    labels: Mapping[str, str]


def report_text(report: Report, *, chain_id: int, provider: str) -> bytes:
    """Return the text of the public report of a run.

    Args:
        report: The report of the run.
        chain_id: The chain of the provider.
        provider: The address of the provider's wallet.

    Raises:
        InvalidInput: If a label of the run is not permitted on the chain.
    """
    findings = report.findings
    labels = provider_labels(PastRun.of(report).labels)
    numbers = _numbers(report)
    document = {
        "chain_id": str(chain_id),
        "ended_at": str(report.ended_at),
        "format": FORMAT,
        "labels": {label.key: label.value for label in labels},
        "measurements": _measurements(findings, numbers),
        "mode": report.mode.value,
        "nodes": list(numbers.values()),
        "omissions": [omission.keys for omission in findings.omissions],
        "pairs": _pairs(findings, numbers),
        "provider": provider,
        "started_at": str(report.started_at),
        "suite": report.suite,
    }
    return _canonical(document)


def signed_file(text: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the file of a public report.

    Args:
        text: The text of the report.
        sign: Returns the EIP-191 signature of a text.
    """
    return _canonical({"report": json.loads(text), "signature": "0x" + sign(text).hex()})


def digest(file: bytes) -> str:
    """Return the value of the label ``benchmark.report`` for a file."""
    return hashlib.sha256(file).hexdigest()


def read_file(file: bytes) -> PublicReport:
    """Return the report in a file. Its signature is not checked.

    Raises:
        InvalidInput: If the file has another form.
    """
    if file.count(b"[") + file.count(b"{") > MAX_BRACKETS:
        raise InvalidInput(_NO_REPORT, detail=f"it has more than {MAX_BRACKETS} arrays and objects")
    try:
        return _public_report(json.loads(file))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(_NO_REPORT, detail=repr(error)) from error


def _public_report(document: Mapping[str, Any]) -> PublicReport:
    report = document["report"]
    signature = _SIGNATURE.fullmatch(document["signature"])
    if signature is None:
        raise ValueError("not a signature")
    return PublicReport(
        text=_canonical(report),
        signature=bytes.fromhex(signature["digits"]),
        format=str(report["format"]),
        chain_id=str(report["chain_id"]),
        provider=str(report["provider"]),
        labels={str(key): str(value) for key, value in report["labels"].items()},
    )


def _canonical(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")


def _numbers(report: Report) -> dict[str, str]:
    """Return the number of each node, by its name."""
    findings = report.findings
    names = {*report.nodes, *(each.node for each in findings.measurements)}
    for pair in findings.pairs:
        names.update(pair.nodes)
    return {name: str(number) for number, name in enumerate(sorted(names), start=1)}


def _measurements(findings: Findings, numbers: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the values of each metric by the number of the node."""
    values: dict[Metric, dict[str, str]] = {}
    for each in findings.measurements:
        values.setdefault(each.metric, {})[numbers[each.node]] = format(each.value, "f")
    return [{**_description(metric), "values": values[metric]} for metric in _sorted(values)]


def _pairs(findings: Findings, numbers: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the values of each metric by the numbers of two nodes, such as ``1-2``."""
    values: dict[Metric, dict[str, str]] = {}
    for each in findings.pairs:
        first, second = each.nodes
        pair = f"{numbers[first]}-{numbers[second]}"
        values.setdefault(each.metric, {})[pair] = format(each.value, "f")
    return [{**_description(metric), "values": values[metric]} for metric in _sorted(values)]


def _description(metric: Metric) -> dict[str, Any]:
    return {"lower_is_better": metric.is_time, "metric": metric.name, "unit": metric.unit}


def _sorted(metrics: Iterable[Metric]) -> list[Metric]:
    return sorted(metrics, key=lambda metric: (metric.name, metric.unit))
