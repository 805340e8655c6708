# SPDX-License-Identifier: Apache-2.0
"""The queue view: jobs are identified by 0x and 64 hexadecimal digits, as in DeepSquare's wire."""

import ssl

import httpx
import pytest
from tests.fakes.certificates import Authority
from tests.fakes.definitions import job_id

from gridstead.adapters.matching.queue_view import pending_reason
from gridstead.rpc.matching import QueueViewServer


@pytest.fixture
def queue_view(tmp_path):
    """The URL of a server with a matched job 5 and a pending job 6, and its CA."""
    authority = Authority(tmp_path)
    server = QueueViewServer(
        "localhost:0",
        authority.issue("meta-scheduler"),
        matched=lambda: {job_id(5): "SCHEDULED"},
        pending=lambda: {job_id(6): "no provider"},
    )
    port = server.start()
    yield f"https://localhost:{port}", authority.certificate
    server.stop()


def test_matched_jobs_have_the_keys_of_the_wire(queue_view):
    url, ca = queue_view

    answer = httpx.get(url, verify=ssl.create_default_context(cafile=ca), trust_env=False)

    assert answer.json() == {f"0x{5:064x}": "SCHEDULED"}


def test_client_reads_why_a_job_is_pending(queue_view):
    url, ca = queue_view

    assert pending_reason(url, job_id(6), ca=ca) == "no provider"
    assert pending_reason(url, job_id(5), ca=ca) is None
