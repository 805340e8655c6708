# SPDX-License-Identifier: Apache-2.0
"""GraphQL requests without a server: texts that come again, and ten thousand that mean no good."""

from __future__ import annotations

import json
import os
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.definitions import MemoryScripts, OneJobLedger, new_service, wire_workflow
from tests.fakes.store import FakeClock

from gridstead.rpc import graphql_schema
from gridstead.rpc.graphql_schema import Requests, make_schema

KEY = b"k" * 32
QUERY = "mutation Submit($job: Job!) { submit(job: $job) }"
VALIDATE = "mutation Validate($module: Module!) { validate(module: $module) }"
HOSTILE_EXAMPLES = int(os.environ.get("GRIDSTEAD_HOSTILE_REQUESTS", "600"))


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


class TestTextThatComesAgain:
    def test_it_is_answered_as_before(self, requests, monkeypatch):
        first = ask(requests, submit(wire_workflow()))
        monkeypatch.setattr(graphql_schema, "validate_document", None)

        second = ask(requests, submit(wire_workflow()))

        assert (first[0], second[0]) == (200, 200)
        assert first[1]["data"]["submit"] != second[1]["data"]["submit"]

    def test_its_variables_are_checked_each_time(self, requests):
        ask(requests, submit(wire_workflow()))

        status, answer = ask(requests, submit({**wire_workflow(), "nonsense": 1}))

        assert status == 422
        assert "nonsense" in answer["errors"][0]["message"]

    def test_one_that_was_wrong_is_wrong_again(self, requests):
        query = "mutation { nonsense }"

        assert [ask(requests, {"query": query})[0] for _ in range(2)] == [422, 422]

    @pytest.mark.parametrize(
        "query", ['query Job { job(batchLocationHash: "a secret") }', "query Job { job }" + " " * 2000, "{ nonsense }"]
    )
    def test_one_that_is_long_or_wrong_or_holds_values_is_not_kept(self, requests, query):
        ask(requests, {"query": query})

        assert not requests._good

    def test_few_are_kept(self, requests, monkeypatch):
        monkeypatch.setattr(graphql_schema, "MAX_KEPT", 3)
        for number in range(10):
            ask(requests, submit(wire_workflow(), QUERY.replace("Submit", f"Submit{number}")))

        assert [text[:16] for text in requests._good] == ["mutation Submit7", "mutation Submit8", "mutation Submit9"]


FIELDS = [
    "resources", "env", "enableLogging", "input", "output", "steps", "name", "run", "for", "launch", "catch", "command",
    "container", "image", "shell", "range", "items", "parallel", "tasks", "key", "value", "nonsense",
]  # fmt: skip
NASTY = (
    "$(touch /tmp/x)", "`id`", "\0", "\u202e", "a" * 5000, "'; DROP TABLE definitions; --", "#SBATCH -n 9", "\ud800",
    "../../etc/passwd", "${IFS}", "!!python/object:os.system", "&a [*a, *a]",
)  # fmt: skip
NUMBERS = st.integers() | st.floats(allow_nan=False)
PLAIN = st.none() | st.booleans() | NUMBERS | st.text(max_size=30) | st.sampled_from(NASTY)
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
)


@st.composite
def mutated(draw):
    """A workflow that is good but for some places."""
    job = wire_workflow(env=[{"key": "A", "value": "b"}], enableLogging=True)
    job["steps"] = [
        *job["steps"],
        {"for": {"parallel": False, "items": ["x"], "steps": [{"run": {"command": "true"}}]}},
    ]
    for _ in range(draw(st.integers(1, 3))):
        place = job
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys)) if keys else None
            inner = place[key] if key is not None else None
            if not isinstance(inner, dict | list) or not inner or draw(st.booleans()):
                break
            place = inner
        if isinstance(place, dict):
            place[draw(st.sampled_from([*place, *FIELDS]))] = draw(ANYTHING)
        elif place:
            place[key] = draw(ANYTHING)
    return job


class TestHostile:
    @settings(max_examples=HOSTILE_EXAMPLES, deadline=None)
    @given(job=mutated())
    def test_mutated_workflow_is_stored_or_told_why_not(self, answers, scripts, job):
        before = len(scripts.records)

        status, answer = answers(submit(job))

        is_stored = "errors" not in answer
        assert len(scripts.records) == before + is_stored
        assert status in ((200,) if is_stored else (200, 422))
        assert all(error["message"] and error["message"] != "internal error" for error in answer.get("errors", ()))
        assert "Traceback" not in json.dumps(answer)

    @settings(max_examples=HOSTILE_EXAMPLES // 4, deadline=None)
    @given(job=mutated())
    def test_mutated_module_is_valid_or_told_why_not(self, answers, job):
        module = {"name": "m", "description": "", "minimumResources": job.get("resources"), "steps": job.get("steps")}

        status, answer = answers({"query": VALIDATE, "variables": {"module": module}})

        assert status in (200, 422)
        assert all(error["message"] != "internal error" for error in answer.get("errors", ()))

    @settings(max_examples=HOSTILE_EXAMPLES, deadline=None)
    @given(data=st.dictionaries(st.sampled_from(["query", "variables", "operationName", "x"]), ANYTHING | st.text()))
    def test_any_request_gets_an_answer(self, answers, data):
        status, answer = answers(data)

        assert status in (200, 422)
        assert answer["errors"][0]["message"] != "internal error"
