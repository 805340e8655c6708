# SPDX-License-Identifier: Apache-2.0
"""The queue view of the meta-scheduler: an HTTPS server that lists matched and pending jobs."""

import ssl

import httpx
import pytest
from tests.fakes.certificates import Authority
from tests.fakes.definitions import job_id

from gridstead.adapters.matching.queue_view import pending_reason
from gridstead.rpc.matching import QueueViewServer, Views

PROVIDER = "0x" + "11" * 20


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
