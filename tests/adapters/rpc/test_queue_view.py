# SPDX-License-Identifier: Apache-2.0
"""The queue view of the meta-scheduler: an HTTPS server that lists matched and pending jobs."""

import ssl

import httpx
import pytest
from tests.fakes.certificates import Authority
from tests.fakes.definitions import job_id

from gridstead.adapters.matching.queue_view import pending_reason
from gridstead.rpc.matching import QueueViewServer


@pytest.fixture
def queue_view(tmp_path):
    """Yield the URL and the CA of a server with a matched job 5 and a pending job 6."""
    authority = Authority(tmp_path)
    server = QueueViewServer(
        "localhost:0",
        authority.issue("meta-scheduler"),
        matched_and_running=lambda: {job_id(5): "SCHEDULED"},
        pending=lambda: {job_id(6): "no provider"},
    )
    port = server.start()
    yield f"https://localhost:{port}", authority.certificate
    server.stop()


def test_names_of_matched_jobs_have_64_hexadecimal_digits(queue_view):
    url, ca = queue_view

    answer = httpx.get(url, verify=ssl.create_default_context(cafile=ca), trust_env=False)

    assert answer.json() == {f"0x{5:064x}": "SCHEDULED"}


def test_client_reads_why_a_job_is_pending(queue_view):
    url, ca = queue_view

    assert pending_reason(url, job_id(6), ca=ca) == "no provider"
    assert pending_reason(url, job_id(5), ca=ca) is None
