# SPDX-License-Identifier: Apache-2.0
"""Tests of the publication of signed reports. No report is signed twice for one record."""

import hashlib
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from tests.fakes.benchmarks import report
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock, MemoryOutbox

from gridstead.domain.benchmarks.public_report import digest, report_text, signed_file
from gridstead.domain.benchmarks.report import PastRun
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Label, Provider
from gridstead.domain.supervisor.offers import Terms
from gridstead.services.supervisor.measured_labels import MeasuredLabels
from gridstead.services.supervisor.registration import Registration
from gridstead.services.supervisor.report_publisher import ReportPublisher, Signer

PROVIDER = "0x" + "11" * 20
CHAIN_ID = 179188
URL = "https://provider.test/benchmark-report.json"
WEEK_S = 7 * 24 * 3600
TERMS = Terms(
    prices=Prices(gpu_per_min=1, cpu_per_min=2, memory_mb_per_min=3), labels={"zone": "lab"}
)


class MemoryHistory:
    """The reports of the runs, the oldest first."""

    def __init__(self):
        self.reports = []
        self.counts = []  # how many reports each call asked for

    def last_reports(self, count):
        self.counts.append(count)
        return tuple(self.reports[-count:])

    def last_runs(self):
        return tuple(map(PastRun.of, self.reports[-2:]))


class MemoryPublicReports:
    """The files of signed reports, by their SHA-256."""

    def __init__(self):
        self.files = {}
        self.served = None

    def has(self, file_digest):
        return file_digest in self.files

    def add(self, file):
        self.files[hashlib.sha256(file).hexdigest()] = file

    def serve(self, file_digest):
        self.served = self.files[file_digest]


class BenchmarkedProvider:
    """A provider with benchmarks."""

    def __init__(self):
        self.ledger = FakeLedger(FakeClock())
        self.outbox = MemoryOutbox()
        self.history = MemoryHistory()
        self.files = MemoryPublicReports()
        self.signed_texts = []

    def sign(self, text):
        self.signed_texts.append(text)
        return hashlib.sha512(text).digest() + b"\x1b"

    def registration(self, url=URL):
        """Return the registration after a start of the supervisor."""
        signer = Signer(chain_id=CHAIN_ID, address=PROVIDER, sign=self.sign)
        publisher = None
        if url is not None:
            publisher = ReportPublisher(self.history, self.files, signer=signer, url=url)
        return Registration(
            self.ledger,
            self.outbox,
            FakeScheduler(self.ledger.clock),
            benchmarks=MeasuredLabels(self.history, self.ledger.clock, publisher=publisher),
            provider=PROVIDER,
            terms=TERMS,
        )

    def measure(self, gflops="100.00"):
        """Add a run that ends now, and return its report."""
        added_report = report(self.ledger.head().timestamp, gflops=gflops)
        self.history.reports.append(added_report)
        return added_report

    def register(self, service):
        """Request a registration, let it be mined and approved, and return its labels."""
        service.tick()
        self.ledger.deliver(self.outbox, PROVIDER)
        (record,) = self.ledger.providers([PROVIDER], at_block=self.ledger.head()).values()
        return {label.key: label.value for label in record.labels}

    def has_request(self, service):
        service.tick()
        return self.outbox.open_entries() != ()


@pytest.fixture
def site():
    return BenchmarkedProvider()


def file_of(site, a_report):
    text = report_text(a_report, chain_id=CHAIN_ID, provider=PROVIDER)
    return signed_file(text, site.sign)


def test_report_of_the_published_run_is_signed_and_served(site):
    file = file_of(site, site.measure())

    labels = site.register(site.registration())

    assert labels["benchmark.report"] == digest(file)
    assert labels["benchmark.report.url"] == URL
    assert site.files.served == file


def test_without_a_url_there_is_no_report(site):
    site.measure()

    labels = site.register(site.registration(url=None))

    assert "benchmark.time" in labels
    assert not {"benchmark.report", "benchmark.report.url"} & labels.keys()
    assert site.signed_texts == []


def test_provider_without_benchmarks_has_no_report(site):
    assert site.register(site.registration()) == {"zone": "lab"}


def test_restart_and_later_runs_change_nothing(site):
    site.measure()
    site.register(site.registration())
    signed_count = len(site.signed_texts)

    assert not site.has_request(site.registration())
    site.measure("101.00")
    assert not site.has_request(site.registration())

    assert len(site.signed_texts) == signed_count


def test_report_of_a_registered_run_is_kept_if_a_new_release_would_sign_another_file(site):
    site.measure()
    old_labels = site.register(site.registration())
    site.files = MemoryPublicReports()  # the files were lost
    site.sign = lambda _text: bytes(65)
    service = site.registration()

    assert not site.has_request(service)
    assert old_labels["benchmark.report"] not in site.files.files


def test_lost_file_is_written_again(site):
    site.measure()
    labels = site.register(site.registration())
    site.files = MemoryPublicReports()

    assert not site.has_request(site.registration())

    assert digest(site.files.served) == labels["benchmark.report"]


def test_url_that_is_set_later_is_registered_with_the_report_of_the_published_run(site):
    published = site.measure()
    site.register(site.registration(url=None))
    site.measure("101.00")
    site.measure("102.00")

    labels = site.register(site.registration())

    assert labels["benchmark.time"] == str(published.ended_at)
    assert labels["benchmark.report"] == digest(file_of(site, published))


def test_url_that_is_removed_is_removed_from_the_labels(site):
    site.measure()
    site.register(site.registration())

    labels = site.register(site.registration(url=None))

    assert not {"benchmark.report", "benchmark.report.url"} & labels.keys()
    assert labels["compute.gflops"] == "100.00"


def test_report_that_is_not_there_any_more_is_searched_once(site):
    site.measure()
    site.register(site.registration(url=None))
    site.history.reports = []
    service = site.registration()

    with capture_logs() as entries:
        assert not site.has_request(service)
        searches = list(site.history.counts)
        assert not site.has_request(service)

    assert site.history.counts == searches
    assert [entry["event"] for entry in entries] == ["benchmark_report_missing"]


def test_changed_labels_have_the_report_of_the_last_run(site):
    site.measure()
    service = site.registration()
    site.register(service)
    site.ledger.clock.advance(WEEK_S)
    site.ledger.mine()
    site.measure("50.00")
    last = site.measure("50.00")

    labels = site.register(service)

    assert labels["compute.gflops"] == "50.00"
    assert labels["benchmark.report"] == digest(file_of(site, last))


def record_with(file_digest):
    return Provider(
        address=PROVIDER,
        hardware=FakeScheduler(FakeClock()).hardware(),
        prices=TERMS.prices,
        labels=(Label(key="benchmark.report", value=file_digest),),
        is_joined=True,
    )


def test_report_of_the_active_record_is_served_until_a_new_record_is_approved(site):
    signer = Signer(chain_id=CHAIN_ID, address=PROVIDER, sign=site.sign)
    publisher = ReportPublisher(site.history, site.files, signer=signer, url=URL)
    old, new = report(1_000), replace(report(2_000), started_at=1_900)
    site.history.reports = [old, new]

    def publish(a_report, active):
        measured = PastRun.of(a_report).labels
        return publisher.labels(measured, published={}, active=active)["benchmark.report"]

    old_digest = publish(old, None)
    assert digest(site.files.served) == old_digest
    new_digest = publish(new, record_with(old_digest))
    assert digest(site.files.served) == old_digest
    publish(new, record_with(new_digest))
    assert digest(site.files.served) == new_digest
