# SPDX-License-Identifier: Apache-2.0
"""What the Job Definition service refuses so that it goes on serving, and how its operator sees
that it does.
"""

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

from gridstead.adapters.job_definitions import submit_workflow
from gridstead.adapters.modules import MAX_CALLERS, GitModules
from gridstead.errors import InvalidWorkflow, JobDefinitionUnavailable, TooMuch, Transient
from gridstead.rpc.graphql import WORKERS, graphql_server
from gridstead.rpc.peer_limit import PeerLimit


class TestLimits:
    def test_caller_that_asks_too_often_is_told_so(self, server_tls, ca):
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

    def test_callers_behind_a_proxy_of_ours_are_told_apart(self, server_tls, ca):
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
            told = [
                http.post(url, json={}, headers={"X-Forwarded-For": who}).status_code
                for who in callers
            ]

        server.stop()
        assert [code == 429 for code in told] == [False, False, True]

    def test_service_that_is_full_says_so(self, server_tls, ca):
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

    def test_caller_that_sends_too_much_is_told_so(self, server_tls, ca):
        service = new_graphql_service(
            lambda *_: "x", request_bytes=PeerLimit(per_s=1, burst=600_000, what="uploads")
        )
        server = graphql_server(host="127.0.0.1", port=0, tls=server_tls, service=service)
        url = f"https://localhost:{server.start()}/graphql"

        with httpx.Client(verify=ssl.create_default_context(cafile=ca), trust_env=False) as http:
            told = [http.post(url, content=b"x" * size).status_code for size in (600_000, 600_000)]

        server.stop()
        assert told == [413, 429]

    def test_caller_of_whom_too_much_is_stored_is_told_so(self, grid, server_tls, ca):
        """The request is small, and what it becomes is not."""
        service = new_graphql_service(
            grid.submit, request_bytes=PeerLimit(per_s=1, burst=20_000, what="uploads")
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
    def module_comes(self, monkeypatch):
        """Until this is set no module comes."""
        event = threading.Event()

        def module(_):
            event.wait(30)
            return "name: a"

        monkeypatch.setattr("gridstead.adapters.modules._Repository.module", module)
        return event

    def test_others_are_served_while_modules_are_fetched(self, server_tls, ca, module_comes):
        """Each holds a thread, so that forty of them had them all for a minute."""
        clock = FakeClock()
        modules = GitModules(("git.x",), clock=clock)
        service = new_service(MemoryScripts(), OneJobLedger(), clock, key=KEY, modules=modules)
        server = graphql_server(
            host="127.0.0.1", port=0, tls=server_tls, service=new_graphql_service(service.submit)
        )
        url = f"https://localhost:{server.start()}/graphql"
        told = queue.SimpleQueue()

        def use(number):
            with pytest.raises((InvalidWorkflow, JobDefinitionUnavailable)) as caught:
                submit_workflow(
                    url, wire_workflow(steps=[{"use": {"source": f"git.x/a/b{number}"}}]), ca=ca
                )
            told.put(str(caught.value))

        callers = [threading.Thread(target=use, args=(number,)) for number in range(40)]
        for caller in callers:
            caller.start()
        try:
            assert len(submit_workflow(url, wire_workflow(), ca=ca)) == 31
            at_once = [told.get(timeout=20) for _ in range(len(callers) - MAX_CALLERS)]
        finally:
            module_comes.set()
            for caller in callers:
                caller.join()
            server.stop()

        assert [one for one in at_once if "too many modules are being fetched" not in one] == []


class TestCondition:
    @pytest.fixture
    def told(self, server_tls, ca):
        """Return a function that asks a server once."""

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

    def test_service_whose_peers_answer_is_ready(self, told):
        assert told("/ready").status_code == 200

    def test_service_whose_peer_is_away_is_not_ready(self, told):
        def check():
            raise Transient("could not reach the state store", detail="where it lies")

        answer = told("/ready", check=check)

        assert (answer.status_code, answer.text) == (503, "could not reach the state store")

    def test_operator_is_answered_while_callers_have_every_worker(self, server_tls, ca):
        entered, go_on = queue.SimpleQueue(), threading.Event()

        def submit(*_):
            entered.put(None)
            go_on.wait(20)
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

        go_on.set()
        for caller in callers:
            caller.join()
        server.stop()
        assert answers == ["ok", "ok"]

    def test_metrics_are_for_those_that_the_operator_names(self, told):
        answer = told("/metrics", metrics_for=(IPv4Network("127.0.0.0/8"), IPv6Network("::1/128")))

        assert (answer.status_code, answer.text) == (200, "# EOF\n")
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert told("/metrics", metrics_for=(IPv4Network("192.0.2.0/24"),)).status_code == 403

    def test_metrics_that_cannot_be_read_are_told_so(self, told):
        def metrics():
            raise Transient("could not reach the chain")

        answer = told("/metrics", metrics=metrics, metrics_for=(IPv4Network("127.0.0.0/8"),))

        assert answer.status_code == 503
