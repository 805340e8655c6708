# SPDX-License-Identifier: Apache-2.0
"""Publishes the signed report of the benchmarks whose labels a provider registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from gridstead.domain.benchmarks.public_report import digest, report_text, signed_file
from gridstead.domain.benchmarks.report import COMPARED_RUNS, MAX_REPORTS, Report
from gridstead.domain.jobs.job import Provider
from gridstead.domain.labels.keys import BENCHMARK_REPORT, BENCHMARK_REPORT_URL, BENCHMARK_TIME
from gridstead.ports.benchmarks import BenchmarkHistory, PublicReports

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """The provider that signs its reports.

    Attributes:
        chain_id: The chain of the provider.
        address: The address of its wallet.
        sign: Returns the EIP-191 signature of a text. The same text has always the same signature.
    """

    chain_id: int
    address: str
    sign: Callable[[bytes], bytes]


class ReportPublisher:
    """Signs the report of the run that is published, and stores the file.

    The file that clients get is that of the active record. So it stays the same while a new record
    waits for approval.

    Args:
        history: The reports of the runs.
        files: The signed reports.
        signer: The provider.
        url: Where clients get the file.
    """

    def __init__(
        self, history: BenchmarkHistory, files: PublicReports, *, signer: Signer, url: str
    ) -> None:
        self._history = history
        self._files = files
        self._signer = signer
        self._url = url
        # The SHA-256 of the file for the last run, by the value of its label benchmark.time. None
        # if no report of this run exists.
        self._digests: dict[str, str | None] = {}

    def labels(
        self,
        measured: Mapping[str, str],
        *,
        published: Mapping[str, str],
        active: Provider | None,
    ) -> dict[str, str]:
        """Return the labels of the report of a run, and store its file.

        Args:
            measured: The labels of the run that the provider offers now.
            published: The labels of the benchmarks in the newest record. If they are about the same
                run, its report is not signed again, because another release may write another file.
            active: The record that was approved last. None if there is none.

        Returns:
            No labels if no report of this run exists.
        """
        time = measured.get(BENCHMARK_TIME)
        if time is None:
            return {}
        file_digest = published.get(BENCHMARK_REPORT)
        if file_digest is None or published.get(BENCHMARK_TIME) != time:
            file_digest = self._sign(time)
        elif not self._files.has(file_digest):
            self._sign(time)
        if file_digest is None:
            return {}
        self._serve(_digest_of(active), file_digest)
        return {BENCHMARK_REPORT: file_digest, BENCHMARK_REPORT_URL: self._url}

    def _sign(self, time: str) -> str | None:
        """Sign the report of a run, store the file, and return its SHA-256.

        Each run is signed once in the life of the process. Returns None if there is no report.
        """
        if time not in self._digests:
            report = self._find(time)
            self._digests = {time: None if report is None else self._store(report)}
            if report is None:
                log.warning("benchmark_report_missing", benchmark_time=time)
        return self._digests[time]

    def _store(self, report: Report) -> str:
        signer = self._signer
        text = report_text(report, chain_id=signer.chain_id, provider=signer.address)
        file = signed_file(text, signer.sign)
        self._files.add(file)
        return digest(file)

    def _find(self, time: str) -> Report | None:
        for count in (COMPARED_RUNS, MAX_REPORTS):
            for report in self._history.last_reports(count):
                if str(report.ended_at) == time:
                    return report
        return None

    def _serve(self, active_digest: str | None, new_digest: str) -> None:
        for file_digest in (active_digest, new_digest):
            if file_digest is not None and self._files.has(file_digest):
                self._files.serve(file_digest)
                return


def _digest_of(record: Provider | None) -> str | None:
    labels = {label.key: label.value for label in record.labels} if record else {}
    return labels.get(BENCHMARK_REPORT)
