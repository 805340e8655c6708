# SPDX-License-Identifier: Apache-2.0
"""Random faulty GraphQL requests. Each request gets an answer and has no side effect.

tests/unit/workflow/test_hostile.py, test_hostile_grpc.py and this module together test ten thousand
workflows and requests.
"""

from __future__ import annotations

import asyncio
import json
import time
from random import Random

import httpx
from tests.adapters.rpc.conftest import new_graphql_service
from tests.fakes.definitions import (
    MemoryModules,
    MemoryScripts,
    OneJobLedger,
    new_service,
    wire_workflow,
)
from tests.fakes.effects import record_effects
from tests.fakes.store import FakeClock
from tests.unit.workflow.mutants import JUNK_VALUES, mutant
from tests.unit.workflow.random_workflows import fetch_module, random_mapping, random_module

from gridstead.rpc.definitions.graphql import make_app

KEY = b"k" * 32
SUBMIT = "mutation Submit($job: Job!) { submit(job: $job) }"
VALIDATE = "mutation Validate($module: Module!) { validate(module: $module) }"
REQUEST_COUNT = 3000
MAX_CPU_S = 2  # per request; most requests need 2 ms
MAX_CHARS = 3000  # of a valid workflow; larger ones would only make the test slower
MAX_ANSWER_BYTES = 600_000  # an answer repeats unknown names, which can be as long as a request
QUERY_FRAGMENTS = [
    "{",
    "}",
    "(",
    ")",
    "$",
    "!",
    "@a",
    "...",
    '"',
    "\0",
    "\ud800",
    "[" * 300,
    "#",
    "&",
    "x",
]
BODY_FRAGMENTS = [b"", b"\xff", b"\0", b"{", b'"', b"1e999", b"[" * 40]


class AllModules(MemoryModules):
    """A store of modules that returns a module for every source."""

    def text(self, source):
        return fetch_module(source)


def test_a_request_is_stored_or_refused_in_time_and_without_side_effects():
    scripts = MemoryScripts()
    service = new_service(scripts, OneJobLedger(), FakeClock(), key=KEY, modules=AllModules())
    app = make_app(new_graphql_service(service.submit, validate=service.validate))

    stored_count = asyncio.run(_send_all(app, scripts))

    # Both valid and invalid requests are tested.
    assert 0.02 < stored_count / REQUEST_COUNT < 0.6


async def _send_all(app, scripts):
    """Send the requests, check each answer, and return the number of stored workflows."""
    valid_mappings = _valid_mappings()
    transport = httpx.ASGITransport(app)
    stored_count = 0
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        # The first request is slower, so its time is not checked.
        first_request = {"query": SUBMIT, "variables": {"job": wire_workflow()}}
        await http.post("/graphql", content=_encoded(first_request))
        for seed in range(REQUEST_COUNT):
            random = Random(seed)
            body = _request(random, valid_mappings)
            count_before = len(scripts.records)
            started_at_s = time.process_time()
            with record_effects() as effects:
                response = await http.post("/graphql", content=body)

            assert effects == [], seed
            assert time.process_time() - started_at_s < MAX_CPU_S, seed
            is_stored = _is_stored(response, seed)
            new_count = int(is_stored)
            assert len(scripts.records) == count_before + new_count, seed
            stored_count += new_count
    return stored_count


def _valid_mappings():
    mappings = []
    for seed in range(400):
        mapping = random_mapping(Random(seed))
        if len(str(mapping)) < MAX_CHARS:
            mappings.append(mapping)
    return mappings


def _request(random, valid_mappings):
    """Return the bytes of a request with a fault in its variables, its envelope or its encoding."""
    if random.random() < 0.2:
        query, operation = VALIDATE, "Validate"
        name, value = "module", random_module(random)
    else:
        query, operation = SUBMIT, "Submit"
        name, value = "job", random.choice(valid_mappings)
    request = {"query": query, "variables": {name: value}, "operationName": operation}
    match random.randrange(10):
        case 0:
            request = mutant(random, request)
        case 1:
            position = random.randrange(len(query))
            fragment = random.choice(QUERY_FRAGMENTS)
            # Insert the fragment, or replace one character by the fragment.
            rest = query[position + random.choice([0, 1]) :]
            request["query"] = query[:position] + fragment + rest
        case 2:
            request[random.choice(list(request))] = random.choice(JUNK_VALUES)
        case _:
            request["variables"] = {name: mutant(random, value)}
    body = _encoded(request)
    if random.random() < 0.1:
        position = random.randrange(len(body))
        body = body[:position] + random.choice(BODY_FRAGMENTS) + body[position + 1 :]
    return body


def _encoded(request):
    return json.dumps(request).encode()


def _is_stored(response, seed):
    """Return whether the workflow was stored. If not, check that every error has a message."""
    assert response.status_code in (200, 400, 413, 422), (seed, response.text[:300])
    assert len(response.content) < MAX_ANSWER_BYTES, seed
    answer = response.json()
    for error in answer.get("errors", ()):
        assert error["message"], seed
        assert error["message"] != "internal error", seed
        assert "Traceback" not in error["message"], seed
    if response.status_code != 200 or "errors" in answer:
        return False
    data = answer["data"] or {}
    return bool(data.get("submit"))
