# SPDX-License-Identifier: Apache-2.0
"""The cache of validated GraphQL documents."""

from __future__ import annotations

import pytest
from tests.fakes.definitions import MemoryScripts, OneJobLedger, new_service, wire_workflow
from tests.fakes.store import FakeClock

from gridstead.rpc.definitions import graphql_schema
from gridstead.rpc.definitions.graphql_schema import GraphqlExecutor, make_schema

KEY = b"k" * 32
QUERY = "mutation Submit($job: Job!) { submit(job: $job) }"


@pytest.fixture(scope="module")
def scripts():
    return MemoryScripts()


@pytest.fixture(scope="module")
def service(scripts):
    return new_service(scripts, OneJobLedger(), FakeClock(), key=KEY)


@pytest.fixture(scope="module")
def schema(service):
    return make_schema(service.submit, service.validate)


@pytest.fixture
def requests(schema):
    return GraphqlExecutor(schema, introspection=False)


def ask(requests, data):
    """Process a request, and return the HTTP status and the answer."""
    return requests.answer(data, lambda _: None)


def submit_request(job, query=QUERY):
    return {"query": query, "variables": {"job": job}}


class TestValidatedDocuments:
    def test_repeated_document_is_not_validated_again(self, requests, monkeypatch):
        first_status, first_answer = ask(requests, submit_request(wire_workflow()))
        monkeypatch.setattr(graphql_schema, "validate_document", None)  # fails if called

        second_status, second_answer = ask(requests, submit_request(wire_workflow()))

        assert first_status == 200
        assert second_status == 200
        assert first_answer["data"]["submit"] != second_answer["data"]["submit"]

    def test_variables_are_checked_each_time(self, requests):
        ask(requests, submit_request(wire_workflow()))

        status, answer = ask(requests, submit_request({**wire_workflow(), "nonsense": 1}))

        assert status == 422
        assert "nonsense" in answer["errors"][0]["message"]

    def test_invalid_document_is_refused_each_time(self, requests):
        for _ in range(2):
            status, _ = ask(requests, {"query": "mutation { nonsense }"})

            assert status == 422

    @pytest.mark.parametrize(
        "query",
        [
            'query Job { job(batchLocationHash: "a secret") }',
            QUERY + " " * 2000,
            "{ nonsense }",
        ],
    )
    def test_document_that_is_long_or_invalid_or_has_literals_is_not_cached(self, requests, query):
        ask(requests, submit_request(wire_workflow(), query))

        assert not requests._valid_documents

    def test_full_cache_drops_the_oldest_documents(self, requests, monkeypatch):
        monkeypatch.setattr(graphql_schema, "MAX_CACHED_DOCUMENTS", 3)
        for number in range(10):
            query = QUERY.replace("Submit", f"Submit{number}")
            ask(requests, submit_request(wire_workflow(), query))

        names = [text.split("(")[0] for text in requests._valid_documents]
        assert names == ["mutation Submit7", "mutation Submit8", "mutation Submit9"]
