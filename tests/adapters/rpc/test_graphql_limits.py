# SPDX-License-Identifier: Apache-2.0
"""Limits of the GraphQL server, and its endpoints for monitoring."""

from __future__ import annotations

import queue
import threading
from ipaddress import IPv4Network, IPv6Network

import pytest
from tests.adapters.rpc.conftest import (
    KEY,
    SUBMIT,
    answer_of,
    new_graphql_server,
    new_http_client,
)
from tests.fakes.definitions import MemoryScripts, OneJobLedger, new_service, wire_workflow
from tests.fakes.store import FakeClock

from gridstead.adapters.definitions.job_definitions import submit_workflow
from gridstead.adapters.definitions.modules import MAX_CALLERS, GitModules
from gridstead.errors import InvalidWorkflow, JobDefinitionUnavailable, LimitExceeded, Transient
from gridstead.rpc.definitions.graphql import WORKERS
from gridstead.rpc.rate_limit import RateLimiter


class TestLimits:
    def test_caller_above_the_request_rate_is_refused(self, server_tls, ca):
        limit = RateLimiter(per_s=0.001, burst=2, subject="requests")
        server = new_graphql_server(server_tls, lambda *_: "x", request_limiter=limit)
        url = f"https://localhost:{server.start()}/graphql"
        submit_workflow(url, wire_workflow(), ca=ca)
        submit_workflow(url, wire_workflow(), ca=ca)

        with pytest.raises(
            JobDefinitionUnavailable, match=r"too many requests.*limited for each caller.*Try again"
        ):
            submit_workflow(url, wire_workflow(), ca=ca)

        server.stop()

    def test_callers_behind_a_known_proxy_have_separate_limits(self, server_tls, ca):
        proxies = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
        limit = RateLimiter(per_s=0.001, burst=1, subject="requests", proxies=proxies)
        server = new_graphql_server(server_tls, lambda *_: "x", request_limiter=limit)
        url = f"https://localhost:{server.start()}/graphql"

        with new_http_client(ca) as http:

            def status_for(caller):
                return http.post(url, json={}, headers={"X-Forwarded-For": caller}).status_code

            # Status 422 means that the limit allows the request, which has no query.
            assert status_for("198.51.100.7") == 422
            assert status_for("198.51.100.8") == 422
            assert status_for("198.51.100.7") == 429
        server.stop()

    def test_caller_is_told_that_the_store_is_full(self, server_tls, ca):
        def submit(*_):
            raise LimitExceeded(
                "cannot store the workflow now", detail="too many wait", hint="Try again later."
            )

        server = new_graphql_server(server_tls, submit)

        answer = answer_of(server, ca, SUBMIT, wire_workflow())

        message = answer["errors"][0]["message"]
        assert message == "cannot store the workflow now (too many wait). Try again later."

    def test_caller_above_the_upload_limit_is_refused(self, server_tls, ca):
        limit = RateLimiter(per_s=1, burst=600_000, subject="uploads")
        server = new_graphql_server(server_tls, lambda *_: "x", byte_limiter=limit)
        url = f"https://localhost:{server.start()}/graphql"

        with new_http_client(ca) as http:
            first_answer = http.post(url, content=b"x" * 600_000)
            second_answer = http.post(url, content=b"x" * 600_000)

        server.stop()
        assert first_answer.status_code == 413  # larger than a single request may be
        assert second_answer.status_code == 429

    def test_stored_size_counts_towards_the_upload_limit(self, servers, server_tls, ca):
        """A small request can contain a workflow whose script is large."""
        limit = RateLimiter(per_s=1, burst=20_000, subject="uploads")
        server = new_graphql_server(server_tls, servers.submit, byte_limiter=limit)
        job = wire_workflow(steps=[{"steps": [{}] * 255}] * 2)

        answer = answer_of(server, ca, SUBMIT, job)

        assert "uploads are limited for each caller" in answer["errors"][0]["message"]
        assert answer["errors"][0]["extensions"]["code"] == "too-much"


class TestSlowModules:
    @pytest.fixture
    def release_modules(self, monkeypatch):
        """Return an event. Each fetch of a module waits for this event, at most 30 s."""
        event = threading.Event()

        def module(_):
            event.wait(30)
            return "name: a"

        monkeypatch.setattr("gridstead.adapters.definitions.modules._Repository.module", module)
        return event

    def test_workflows_without_modules_are_served_while_modules_are_fetched(
        self, server_tls, ca, release_modules
    ):
        """Each fetch blocks a thread. A limit on the fetches keeps threads free."""
        clock = FakeClock()
        modules = GitModules(("git.x",), clock=clock)
        service = new_service(MemoryScripts(), OneJobLedger(), clock, key=KEY, modules=modules)
        server = new_graphql_server(server_tls, service.submit)
        url = f"https://localhost:{server.start()}/graphql"
        errors = queue.SimpleQueue()

        def submit_with_module(number):
            workflow = wire_workflow(steps=[{"use": {"source": f"git.x/a/b{number}"}}])
            with pytest.raises((InvalidWorkflow, JobDefinitionUnavailable)) as caught:
                submit_workflow(url, workflow, ca=ca)
            errors.put(str(caught.value))

        callers = [
            threading.Thread(target=submit_with_module, args=(number,)) for number in range(40)
        ]
        for caller in callers:
            caller.start()
        try:
            script_id = submit_workflow(url, wire_workflow(), ca=ca)
            assert len(script_id) == 31
            for _ in range(len(callers) - MAX_CALLERS):
                assert "too many modules are being fetched" in errors.get(timeout=20)
        finally:
            release_modules.set()
            for caller in callers:
                caller.join()
            server.stop()


class TestMonitoring:
    @pytest.fixture
    def get(self, server_tls, ca):
        """A function that starts a server, sends one GET request and returns the answer."""

        def get(path, **fields):
            server = new_graphql_server(server_tls, lambda *_: "x", **fields)
            url = f"https://localhost:{server.start()}{path}"
            try:
                with new_http_client(ca) as http:
                    return http.get(url)
            finally:
                server.stop()

        return get

    def test_ready_has_status_200_if_all_required_services_answer(self, get):
        assert get("/ready").status_code == 200

    def test_ready_has_status_503_if_a_required_service_does_not_answer(self, get):
        def check():
            raise Transient("could not reach the state store", detail="its secret address")

        answer = get("/ready", check_ready=check)

        assert answer.status_code == 503
        assert answer.text == "could not reach the state store"

    def test_ready_and_health_are_answered_while_all_workers_are_busy(self, server_tls, ca):
        entered_calls, release = queue.SimpleQueue(), threading.Event()

        def submit(*_):
            entered_calls.put(None)
            release.wait(20)
            return "x"

        server = new_graphql_server(server_tls, submit)
        url = f"https://localhost:{server.start()}"
        arguments = (f"{url}/graphql", wire_workflow())
        callers = [
            threading.Thread(target=submit_workflow, args=arguments, kwargs={"ca": ca})
            for _ in range(WORKERS + 4)
        ]
        for caller in callers:
            caller.start()
        # Wait until every worker is in ``submit``.
        for _ in range(WORKERS):
            entered_calls.get(timeout=20)

        with new_http_client(ca, timeout=5) as http:
            ready = http.get(f"{url}/ready").text
            health = http.get(f"{url}/health").text

        release.set()
        for caller in callers:
            caller.join()
        server.stop()
        assert ready == "ok"
        assert health == "ok"

    def test_metrics_are_served_only_to_the_configured_networks(self, get):
        answer = get(
            "/metrics", metrics_networks=(IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
        )

        assert answer.status_code == 200
        assert answer.text == "# EOF\n"
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert get("/metrics", metrics_networks=(IPv4Network("192.0.2.0/24"),)).status_code == 403

    def test_status_is_503_if_the_metrics_cannot_be_read(self, get):
        def metrics():
            raise Transient("could not reach the chain")

        answer = get("/metrics", metrics=metrics, metrics_networks=(IPv4Network("127.0.0.0/8"),))

        assert answer.status_code == 503
