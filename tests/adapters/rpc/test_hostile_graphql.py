# SPDX-License-Identifier: Apache-2.0
"""Hostile GraphQL requests: each gets an answer and has no side effect.

Together with tests/unit/workflow/test_hostile.py and test_hostile_grpc.py, these tests send ten
thousand requests.
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
from tests.fakes.effects import watched
from tests.fakes.store import FakeClock
from tests.unit.workflow.mutants import JUNK_VALUES, mutant
from tests.unit.workflow.random_workflows import fetch_module, random_mapping, random_module

from gridstead.rpc.definitions.graphql import make_app

KEY = b"k" * 32
SUBMIT = "mutation Submit($job: Job!) { submit(job: $job) }"
VALIDATE = "mutation Validate($module: Module!) { validate(module: $module) }"
NUMBER = 3000
MAX_CPU_S = 2  # per request; most need a thousandth of it
MAX_CHARS = 3000  # of a valid workflow; larger ones only take longer
MAX_ANSWER = 600_000  # an answer repeats unknown names, which can be as long as a request
PIECES = ["{", "}", "(", ")", "$", "!", "@a", "...", '"', "\0", "\ud800", "[" * 300, "#", "&", "x"]
BYTES = [b"", b"\xff", b"\0", b"{", b'"', b"1e999", b"[" * 40]


class AllModules(MemoryModules):
    """Modules of which every source exists."""

    def text(self, source):
        return fetch_module(source)


def test_each_request_is_stored_or_refused_in_time_without_side_effects():
    scripts = MemoryScripts()
    service = new_service(scripts, OneJobLedger(), FakeClock(), key=KEY, modules=AllModules())
    app = make_app(new_graphql_service(service.submit, validate=service.validate))

    stored = asyncio.run(_send_all(app, scripts))

    assert 0.02 < stored / NUMBER < 0.6


async def _send_all(app, scripts):
    mappings = (random_mapping(Random(seed)) for seed in range(400))
    valid = [mapping for mapping in mappings if len(str(mapping)) < MAX_CHARS]
    transport = httpx.ASGITransport(app)
    stored = 0
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        await http.post(
            "/graphql", content=_encoded({"query": SUBMIT, "variables": {"job": wire_workflow()}})
        )
        for seed in range(NUMBER):
            random = Random(seed)
            body = _request(random, valid)
            before, started = len(scripts.records), time.process_time()
            with watched() as effects:
                response = await http.post("/graphql", content=body)

            assert effects == [], seed
            assert time.process_time() - started < MAX_CPU_S, seed
            is_stored = _is_stored(response, seed)
            assert len(scripts.records) == before + is_stored, seed
            stored += is_stored
    return stored


def _request(random, valid):
    """Return the bytes of a request with a fault in its content, its envelope or its encoding."""
    if random.random() < 0.2:
        request = {
            "query": VALIDATE,
            "variables": {"module": random_module(random)},
            "operationName": "Validate",
        }
    else:
        request = {
            "query": SUBMIT,
            "variables": {"job": random.choice(valid)},
            "operationName": "Submit",
        }
    name = next(iter(request["variables"]))
    match random.randrange(10):
        case 0:
            request = mutant(random, request)
        case 1:
            place = random.randrange(len(request["query"]))
            piece = random.choice(PIECES)
            request["query"] = (
                request["query"][:place] + piece + request["query"][place + random.choice([0, 1]) :]
            )
        case 2:
            request[random.choice(list(request))] = random.choice(JUNK_VALUES)
        case _:
            request["variables"] = {name: mutant(random, request["variables"][name])}
    body = _encoded(request)
    if random.random() < 0.1:
        place = random.randrange(len(body))
        body = body[:place] + random.choice(BYTES) + body[place + 1 :]
    return body


def _encoded(request):
    return json.dumps(request).encode()


def _is_stored(response, seed):
    """Return whether the workflow was stored. If not, check that every error has a message."""
    assert response.status_code in (200, 400, 413, 422), (seed, response.text[:300])
    assert len(response.content) < MAX_ANSWER, seed
    answer = response.json()
    for error in answer.get("errors", ()):
        assert error["message"], seed
        assert error["message"] != "internal error", seed
        assert "Traceback" not in error["message"], seed
    return bool(
        response.status_code == 200
        and "errors" not in answer
        and (answer["data"] or {}).get("submit")
    )
