# SPDX-License-Identifier: Apache-2.0
"""Limits of the Job Definition service, and its endpoints for monitoring."""

from __future__ import annotations

import queue
import ssl
import threading
from ipaddress import IPv4Network, IPv6Network

import httpx
import pytest
from tests.adapters.rpc.conftest import KEY, SUBMIT, ask, new_graphql_service
from tests.fakes.definitions import MemoryScripts, OneJobLedger, new_service, wire_workflow
from tests.fakes.store import FakeClock

from gridstead.adapters.definitions.job_definitions import submit_workflow
from gridstead.adapters.definitions.modules import MAX_CALLERS, GitModules
from gridstead.errors import InvalidWorkflow, JobDefinitionUnavailable, TooMuch, Transient
from gridstead.rpc.definitions.graphql import WORKERS, graphql_server
from gridstead.rpc.peer_limit import PeerLimit


class TestLimits:
    def test_caller_above_the_request_rate_is_refused(self, server_tls, ca):
        service = new_graphql_service(
            lambda *_: "x", requests=PeerLimit(per_s=0.001, burst=2, what="requests")
        )
        server = graphql_server(host="127.0.0.1", port=0, tls=server_tls, service=service)
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
        limit = PeerLimit(per_s=0.001, burst=1, what="requests", proxies=proxies)
        server = graphql_server(
            host="127.0.0.1",
            port=0,
            tls=server_tls,
            service=new_graphql_service(lambda *_: "x", requests=limit),
        )
        url = f"https://localhost:{server.start()}/graphql"

        with httpx.Client(verify=ssl.create_default_context(cafile=ca), trust_env=False) as http:
            callers = ("198.51.100.7", "198.51.100.8", "198.51.100.7")
            statuses = [
                http.post(url, json={}, headers={"X-Forwarded-For": caller}).status_code
                for caller in callers
            ]

        server.stop()
        assert [status == 429 for status in statuses] == [False, False, True]

    def test_full_store_is_reported_to_the_caller(self, server_tls, ca):
        def submit(*_):
            raise TooMuch(
                "cannot store the workflow now", detail="too many wait", hint="Try again later."
            )

        answer = ask(
            graphql_server(
                host="127.0.0.1", port=0, tls=server_tls, service=new_graphql_service(submit)
            ),
            ca,
            SUBMIT,
            wire_workflow(),
        )

        assert (
            answer["errors"][0]["message"]
            == "cannot store the workflow now (too many wait). Try again later."
        )

    def test_caller_above_the_upload_limit_is_refused(self, server_tls, ca):
        service = new_graphql_service(
            lambda *_: "x", request_bytes=PeerLimit(per_s=1, burst=600_000, what="uploads")
        )
        server = graphql_server(host="127.0.0.1", port=0, tls=server_tls, service=service)
        url = f"https://localhost:{server.start()}/graphql"

        with httpx.Client(verify=ssl.create_default_context(cafile=ca), trust_env=False) as http:
            statuses = [
                http.post(url, content=b"x" * size).status_code for size in (600_000, 600_000)
            ]

        server.stop()
        assert statuses == [413, 429]

    def test_stored_size_counts_towards_the_upload_limit(self, servers, server_tls, ca):
        """A small request can become a large script."""
        service = new_graphql_service(
            servers.submit, request_bytes=PeerLimit(per_s=1, burst=20_000, what="uploads")
        )
        job = wire_workflow(steps=[{"steps": [{}] * 255}] * 2)

        answer = ask(
            graphql_server(host="127.0.0.1", port=0, tls=server_tls, service=service),
            ca,
            SUBMIT,
            job,
        )

        assert "uploads are limited for each caller" in answer["errors"][0]["message"]
        assert answer["errors"][0]["extensions"]["code"] == "too-much"


class TestSlowModules:
    @pytest.fixture
    def modules_arrive(self, monkeypatch):
        """Return an event. No module is fetched before it is set."""
        event = threading.Event()

        def module(_):
            event.wait(30)
            return "name: a"

        monkeypatch.setattr("gridstead.adapters.definitions.modules._Repository.module", module)
        return event

    def test_workflows_without_modules_are_served_while_modules_are_fetched(
        self, server_tls, ca, modules_arrive
    ):
        """Each fetch blocks a thread. Without a limit, 40 fetches blocked every thread."""
        clock = FakeClock()
        modules = GitModules(("git.x",), clock=clock)
        service = new_service(MemoryScripts(), OneJobLedger(), clock, key=KEY, modules=modules)
        server = graphql_server(
            host="127.0.0.1", port=0, tls=server_tls, service=new_graphql_service(service.submit)
        )
        url = f"https://localhost:{server.start()}/graphql"
        errors = queue.SimpleQueue()

        def use(number):
            with pytest.raises((InvalidWorkflow, JobDefinitionUnavailable)) as caught:
                submit_workflow(
                    url, wire_workflow(steps=[{"use": {"source": f"git.x/a/b{number}"}}]), ca=ca
                )
            errors.put(str(caught.value))

        callers = [threading.Thread(target=use, args=(number,)) for number in range(40)]
        for caller in callers:
            caller.start()
        try:
            assert len(submit_workflow(url, wire_workflow(), ca=ca)) == 31
            early_errors = [errors.get(timeout=20) for _ in range(len(callers) - MAX_CALLERS)]
        finally:
            modules_arrive.set()
            for caller in callers:
                caller.join()
            server.stop()

        assert [
            error for error in early_errors if "too many modules are being fetched" not in error
        ] == []


class TestCondition:
    @pytest.fixture
    def get(self, server_tls, ca):
        """Return a function that starts a server, sends one GET request and returns the answer."""

        def ask(path, **fields):
            server = graphql_server(
                host="127.0.0.1",
                port=0,
                tls=server_tls,
                service=new_graphql_service(lambda *_: "x", **fields),
            )
            url = f"https://localhost:{server.start()}{path}"
            try:
                with httpx.Client(
                    verify=ssl.create_default_context(cafile=ca), trust_env=False
                ) as http:
                    return http.get(url)
            finally:
                server.stop()

        return ask

    def test_ready_is_200_if_all_peers_answer(self, get):
        assert get("/ready").status_code == 200

    def test_ready_is_503_if_a_peer_does_not_answer(self, get):
        def check():
            raise Transient("could not reach the state store", detail="where it lies")

        answer = get("/ready", check=check)

        assert (answer.status_code, answer.text) == (503, "could not reach the state store")

    def test_ready_and_health_are_answered_while_all_workers_are_busy(self, server_tls, ca):
        entered, release = queue.SimpleQueue(), threading.Event()

        def submit(*_):
            entered.put(None)
            release.wait(20)
            return "x"

        server = graphql_server(
            host="127.0.0.1", port=0, tls=server_tls, service=new_graphql_service(submit)
        )
        url = f"https://localhost:{server.start()}"
        arguments = (f"{url}/graphql", wire_workflow())
        callers = [
            threading.Thread(target=submit_workflow, args=arguments, kwargs={"ca": ca})
            for _ in range(45)
        ]
        for caller in callers:
            caller.start()
        for _ in range(WORKERS):
            entered.get(timeout=20)

        with httpx.Client(
            verify=ssl.create_default_context(cafile=ca), trust_env=False, timeout=5
        ) as http:
            answers = [http.get(f"{url}/{path}").text for path in ("ready", "health")]

        release.set()
        for caller in callers:
            caller.join()
        server.stop()
        assert answers == ["ok", "ok"]

    def test_metrics_are_served_to_the_configured_networks_only(self, get):
        answer = get("/metrics", metrics_for=(IPv4Network("127.0.0.0/8"), IPv6Network("::1/128")))

        assert (answer.status_code, answer.text) == (200, "# EOF\n")
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert get("/metrics", metrics_for=(IPv4Network("192.0.2.0/24"),)).status_code == 403

    def test_metrics_are_503_if_they_cannot_be_read(self, get):
        def metrics():
            raise Transient("could not reach the chain")

        answer = get("/metrics", metrics=metrics, metrics_for=(IPv4Network("127.0.0.0/8"),))

        assert answer.status_code == 503
