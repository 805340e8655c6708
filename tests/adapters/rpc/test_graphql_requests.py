# SPDX-License-Identifier: Apache-2.0
"""The cache of validated GraphQL documents, without a server."""

from __future__ import annotations

from functools import partial

import pytest
from tests.fakes.definitions import MemoryScripts, OneJobLedger, new_service, wire_workflow
from tests.fakes.store import FakeClock

from gridstead.rpc.definitions import graphql_schema
from gridstead.rpc.definitions.graphql_schema import Requests, make_schema

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


@pytest.fixture(scope="module")
def answers(schema):
    return partial(ask, Requests(schema, introspection=False))


@pytest.fixture
def requests(schema):
    return Requests(schema, introspection=False)


def ask(requests, data):
    return requests.answer(data, lambda _: None)


def submit(job, query=QUERY):
    return {"query": query, "variables": {"job": job}}


class TestValidatedDocuments:
    def test_repeated_document_is_not_validated_again(self, requests, monkeypatch):
        first = ask(requests, submit(wire_workflow()))
        monkeypatch.setattr(graphql_schema, "validate_document", None)

        second = ask(requests, submit(wire_workflow()))

        assert (first[0], second[0]) == (200, 200)
        assert first[1]["data"]["submit"] != second[1]["data"]["submit"]

    def test_variables_are_checked_each_time(self, requests):
        ask(requests, submit(wire_workflow()))

        status, answer = ask(requests, submit({**wire_workflow(), "nonsense": 1}))

        assert status == 422
        assert "nonsense" in answer["errors"][0]["message"]

    def test_invalid_document_is_refused_each_time(self, requests):
        query = "mutation { nonsense }"

        assert [ask(requests, {"query": query})[0] for _ in range(2)] == [422, 422]

    @pytest.mark.parametrize(
        "query",
        [
            'query Job { job(batchLocationHash: "a secret") }',
            "query Job { job }" + " " * 2000,
            "{ nonsense }",
        ],
    )
    def test_long_invalid_or_literal_documents_are_not_cached(self, requests, query):
        ask(requests, {"query": query})

        assert not requests._valid

    def test_cache_contains_the_newest_documents_only(self, requests, monkeypatch):
        monkeypatch.setattr(graphql_schema, "MAX_CACHED", 3)
        for number in range(10):
            ask(requests, submit(wire_workflow(), QUERY.replace("Submit", f"Submit{number}")))

        assert [text[:16] for text in requests._valid] == [
            "mutation Submit7",
            "mutation Submit8",
            "mutation Submit9",
        ]
