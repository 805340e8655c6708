# SPDX-License-Identifier: Apache-2.0
"""The queue view of the meta-scheduler: an HTTPS server that lists matched and pending jobs."""

import ssl

import httpx
import pytest
from tests.fakes.certificates import Authority
from tests.fakes.definitions import job_id

from gridstead.adapters.chain.wallet import recover, wallet_of
from gridstead.adapters.matching.decisions import read_decisions
from gridstead.adapters.matching.queue_view import pending_reason, understood_keys
from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.job import Block
from gridstead.domain.matching.decision_log import next_record, verify
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.transactions.calls import Match
from gridstead.errors import QueueViewUnavailable, Transient, UnexpectedOutput
from gridstead.rpc.matching import QueueViewServer, Views

PROVIDER = "0x" + "11" * 20
WALLET = wallet_of((7).to_bytes(32))


def records_of_log(count):
    """Return a log with one match per record."""
    records = []
    for number in range(count):
        job_key = JobKey(job_id=job_id(number), batch_location_hash="script")
        match = Match(job_key=job_key, provider=PROVIDER, max_price_per_min=1)
        last = records[-1] if records else None
        block = Block(number=number, hash=f"0x{number:064x}", timestamp=number)
        records.append(next_record(last, block, [match], Rules(), sign=WALLET.sign_text))
    return records


RECORDS = records_of_log(5)


@pytest.fixture
def queue_view(tmp_path):
    """Yield the URL and the CA of a server with a matched job 5 and a pending job 6."""
    authority = Authority(tmp_path)
    views = Views(
        matched_and_running=lambda: {job_id(5): "SCHEDULED"},
        pending=lambda: {job_id(6): "no provider"},
        explanation=lambda _number: None,
        excluded=lambda: {PROVIDER: "3 changes"},
        metrics=lambda: "gridstead_providers_excluded 1.0\n",
        decisions=lambda first: RECORDS[first : first + 2],
        keys={"policy": ("=", "==")},
    )
    server = QueueViewServer("localhost:0", authority.issue("meta-scheduler"), views)
    port = server.start()
    yield f"https://localhost:{port}", authority.certificate
    server.stop()


def get(queue_view, path):
    """Return the answer of the server."""
    url, ca = queue_view
    context = ssl.create_default_context(cafile=ca)
    return httpx.get(url + path, verify=context, trust_env=False)


def test_names_of_matched_jobs_have_64_hexadecimal_digits(queue_view):
    assert get(queue_view, "/").json() == {f"0x{5:064x}": "SCHEDULED"}


def test_operator_reads_why_a_provider_is_excluded(queue_view):
    assert get(queue_view, "/excluded").json() == {PROVIDER: "3 changes"}


def test_metrics_are_openmetrics_text(queue_view):
    answer = get(queue_view, "/metrics")

    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert answer.text == "gridstead_providers_excluded 1.0\n"


def test_unknown_path_is_not_found(queue_view):
    assert get(queue_view, "/other").status_code == 404


def test_client_reads_why_a_job_is_pending(queue_view):
    url, ca = queue_view

    assert pending_reason(url, job_id(6), ca=ca) == "no provider"
    assert pending_reason(url, job_id(5), ca=ca) is None


@pytest.mark.parametrize("first", [0, 3, 5])
def test_client_reads_the_decision_log_from_a_record_on(queue_view, first):
    url, ca = queue_view

    records = list(read_decisions(url, first=first, ca=ca))

    assert records == RECORDS[first:]
    assert verify(records, signer_of=recover).record_count == 5 - first


@pytest.mark.parametrize("path", ["/decisions", "/decisions/", "/decisions/-1", "/decisions/x"])
def test_malformed_path_of_the_decision_log_is_not_found(queue_view, path):
    assert get(queue_view, path).status_code == 404


def test_client_reports_a_queue_view_without_a_decision_log(queue_view):
    url, ca = queue_view

    with pytest.raises(Transient):
        list(read_decisions(f"{url}/other", first=0, ca=ca))


def test_client_reports_an_answer_that_is_not_a_list_of_records(queue_view, monkeypatch):
    url, ca = queue_view
    monkeypatch.setattr("gridstead.rpc.matching.asdict", lambda _: {"number": 1})

    with pytest.raises(UnexpectedOutput):
        list(read_decisions(url, first=0, ca=ca))


def test_client_notices_that_the_first_records_are_missing(queue_view, monkeypatch):
    url, ca = queue_view
    monkeypatch.setattr("tests.adapters.rpc.test_queue_view.RECORDS", RECORDS[1:])

    with pytest.raises(UnexpectedOutput):
        list(read_decisions(url, first=0, ca=ca))


def test_client_reads_the_keys_that_the_matcher_understands(queue_view):
    url, ca = queue_view

    assert understood_keys(url, ca=ca) == {"policy": ["=", "=="]}


def test_older_meta_scheduler_understands_no_reserved_keys(queue_view):
    url, ca = queue_view

    assert understood_keys(f"{url}/older", ca=ca) == {}


def test_keys_of_an_unreachable_queue_view_are_unknown(queue_view):
    url, _ = queue_view

    with pytest.raises(QueueViewUnavailable):
        understood_keys(url, ca=None)  # the CAs of the system did not sign its certificate


@pytest.mark.parametrize("path", ["/excluded", "/metrics"])
def test_keys_in_another_form_are_unexpected(queue_view, path, monkeypatch):
    url, ca = queue_view
    answer = get(queue_view, path)
    monkeypatch.setattr(httpx, "get", lambda *_, **__: answer)

    with pytest.raises(UnexpectedOutput):
        understood_keys(url, ca=ca)
