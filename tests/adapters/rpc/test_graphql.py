# SPDX-License-Identifier: Apache-2.0
"""The GraphQL server of the Job Definition service, with valid and invalid requests."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
import pytest
from tests.adapters.rpc.conftest import (
    SUBMIT,
    answer_of,
    new_graphql_server,
    new_graphql_service,
    new_http_client,
    new_sbatch_server,
)
from tests.fakes.definitions import wire_workflow

from gridstead.adapters.definitions.job_definitions import submit_workflow
from gridstead.errors import (
    ConfigError,
    InvalidWorkflow,
    JobDefinitionUnavailable,
    Transient,
    UnexpectedOutput,
)
from gridstead.rpc.definitions.graphql import graphql_server
from gridstead.rpc.tls import TlsFiles
from gridstead.workflow.json_schema import json_schema

LONE_SURROGATE = (
    b'{"query": "mutation S($job: Job!) { submit(job: $job) }", '
    b'"variables": {"job": {"\\udfff": 1}}}'
)
VALIDATE = "mutation Validate($module: Module!) { validate(module: $module) }"
MODULE = {
    "name": "hello", "description": "Says hello.",
    "inputs": [{"key": "WHO", "description": "Whom.", "default": "you"}],
    "minimumResources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 64, "gpus": 0},
    "steps": [{"run": {"command": "echo $WHO"}}],
}  # fmt: skip


@pytest.fixture
def http(ca):
    with new_http_client(ca) as http:
        yield http


def post(http, servers, query=SUBMIT, variables=None):
    return http.post(servers.url, json={"query": query, "variables": variables or {}})


class TestSubmit:
    def test_our_client_stores_a_workflow(self, servers, ca):
        script_id = submit_workflow(servers.url, wire_workflow(), ca=ca)

        assert len(script_id) == 31
        assert "echo hello" in servers.scripts.records[script_id]

    def test_our_client_reports_every_broken_rule(self, servers, ca):
        workflow = wire_workflow(steps=[{"run": {"command": "a\0", "shell": "/bin/zsh"}}])

        with pytest.raises(InvalidWorkflow) as caught:
            submit_workflow(servers.url, workflow, ca=ca)

        first, second = caught.value.problems
        assert first.path == "steps[0].run.command"
        assert second.path == "steps[0].run.shell"

    def test_unknown_field_is_refused_by_the_schema(self, http, servers):
        job = wire_workflow(steps=[{"run": {"command": "true", "networks": "host"}}])

        response = post(http, servers, variables={"job": job})

        assert response.status_code == 422
        assert "networks" in response.json()["errors"][0]["message"]

    def test_broken_rule_is_answered_with_status_200_and_errors(self, http, servers):
        response = post(http, servers, variables={"job": wire_workflow(steps=[])})

        assert response.status_code == 200
        error = response.json()["errors"][0]
        assert error["message"] == "steps: must not be empty"
        assert error["extensions"]["type"] == "validation"
        assert error["extensions"]["tag"] == "min"

    def test_every_broken_rule_is_a_separate_error(self, http, servers):
        job = wire_workflow(steps=[{"run": {"command": "a", "shell": "zsh"}}] * 2)

        response = post(http, servers, variables={"job": job})

        assert response.status_code == 200
        first, second = response.json()["errors"]
        reason = "must be /bin/sh, /bin/bash, /bin/ash or ENTRYPOINT; it is 'zsh'"
        assert first == {
            "message": f"steps[0].run.shell: {reason}",
            "path": ["submit"],
            "extensions": {
                "type": "validation", "code": "invalid-workflow", "tag": "valid",
                "namespace": "steps[0].run.shell",
                "field": "shell", "original_message": reason,
            },
        }  # fmt: skip
        assert second["extensions"]["namespace"] == "steps[1].run.shell"

    def test_request_with_two_workflows_is_refused(self, http, servers):
        query = "mutation S($job: Job!) { a: submit(job: $job) b: submit(job: $job) }"

        response = post(http, servers, query=query, variables={"job": wire_workflow()})

        assert response.status_code == 422

    def test_unexpected_exception_is_logged_with_its_source_line_and_without_its_message(
        self, server_tls, ca, caplog
    ):
        def submit(*_):
            raise KeyError("a secret")

        server = new_graphql_server(server_tls, submit)

        answer = answer_of(server, ca, SUBMIT, wire_workflow())

        assert answer["errors"][0]["message"] == "internal error"
        assert "KeyError at" in caplog.text
        assert "test_graphql.py" in caplog.text
        assert "a secret" not in caplog.text

    def test_unavailable_store_is_a_transient_error(self, server_tls, ca):
        def submit(*_):
            raise Transient("could not reach the state store", detail="its secret address")

        server = new_graphql_server(server_tls, submit)
        url = f"https://localhost:{server.start()}/graphql"

        with pytest.raises(JobDefinitionUnavailable) as caught:
            submit_workflow(url, wire_workflow(), ca=ca)

        server.stop()
        assert "could not reach the state store" in str(caught.value)
        assert "its secret address" not in str(caught.value)

    @pytest.mark.parametrize(
        "answer", ['{"data": null}', "[]", '{"errors": [5]}', '{"errors": [{}]}']
    )
    def test_invalid_answer_raises_unexpected_output(self, monkeypatch, answer):
        monkeypatch.setattr(httpx, "post", lambda *_, **__: httpx.Response(200, text=answer))

        with pytest.raises(UnexpectedOutput):
            submit_workflow("https://localhost/graphql", wire_workflow())

    def test_unreadable_ca_is_a_config_error(self, tmp_path):
        with pytest.raises(ConfigError, match="could not read"):
            submit_workflow("https://localhost/graphql", wire_workflow(), ca=tmp_path / "none")

    def test_unreachable_service_is_a_transient_error(self, ca):
        with pytest.raises(JobDefinitionUnavailable):
            submit_workflow("https://localhost:1/graphql", wire_workflow(), ca=ca)


class TestCustomer:
    def test_our_client_sends_the_customer(self, servers, ca):
        script_id = submit_workflow(servers.url, wire_workflow(), ca=ca, customer="0x" + "a1" * 20)

        assert servers.scripts.owners[script_id] == "0x" + "a1" * 20

    def test_invalid_customer_address_is_refused(self, servers, ca):
        with pytest.raises(InvalidWorkflow, match="invalid address"):
            submit_workflow(servers.url, wire_workflow(), ca=ca, customer="0x1")

    def test_client_repeats_the_request_without_the_customer_for_an_old_service(self, monkeypatch):
        message = 'Unknown argument "customer" on field "Mutation.submit".'
        requests = []

        def answer(_url, *, json, **_):
            requests.append(json)
            if "customer" in json["variables"]:
                return httpx.Response(422, json={"errors": [{"message": message}]})
            return httpx.Response(200, json={"data": {"submit": "x"}})

        monkeypatch.setattr(httpx, "post", answer)

        script_id = submit_workflow(
            "https://localhost/graphql", wire_workflow(), customer="0x" + "a1" * 20
        )

        assert script_id == "x"
        assert len(requests) == 2


class TestValidate:
    def test_valid_module_is_accepted(self, http, servers):
        response = post(http, servers, query=VALIDATE, variables={"module": MODULE})

        assert response.json() == {"data": {"validate": "valid"}}

    def test_every_broken_rule_of_a_module_is_reported(self, http, servers):
        module = MODULE | {"inputs": [{"key": "not a name", "description": ""}], "steps": []}

        response = post(http, servers, query=VALIDATE, variables={"module": module})

        report = response.json()["data"]["validate"]
        assert "inputs[0].key" in report
        assert "steps: must not be empty" in report
        assert len(report.splitlines()) == 2

    def test_request_with_two_modules_is_refused(self, http, servers):
        validation = "validate(module: $module)"
        query = f"mutation V($module: Module!) {{ a: {validation} b: {validation} }}"

        response = post(http, servers, query=query, variables={"module": MODULE})

        assert response.status_code == 422


class TestServer:
    def test_json_schema_is_served_to_everybody(self, http, servers):
        response = http.get(servers.url.replace("/graphql", "/workflow.schema.json"))

        assert response.status_code == 200
        assert response.headers["content-type"] == "application/schema+json"
        assert response.json() == json_schema()

    def test_query_for_a_script_is_refused(self, http, servers):
        query = (
            "query Job($batchLocationHash: String!) { job(batchLocationHash: $batchLocationHash) }"
        )

        response = post(http, servers, query=query, variables={"batchLocationHash": "x"})

        assert response.status_code == 200
        assert "provider" in response.json()["errors"][0]["message"]

    def test_introspection_is_refused_by_default(self, http, servers):
        assert post(http, servers, query="{ __schema { types { name } } }").status_code == 422

    def test_introspection_is_answered_if_enabled(self, server_tls, ca):
        server = new_graphql_server(server_tls, lambda *_: "x", introspection=True)

        answer = answer_of(server, ca, "{ __schema { types { name } } }")

        assert {"name": "StepRun"} in answer["data"]["__schema"]["types"]

    def test_health_is_ok(self, http, servers):
        assert http.get(servers.url.replace("/graphql", "/health")).text == "ok"

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            (b"", 400),
            (b"[]", 400),
            (b"{", 400),
            (b"[" * 100_000, 400),
            (b"\xff", 400),
            (b"{}", 422),
            (b'{"query": 5}', 422),
            (b'{"query": "mutation {"}', 422),
            (b'{"query": "{ job }", "variables": []}', 422),
            (b'{"query": "' + b"{ a" * 3000 + b'"}', 422),
            (b'{"query": "{ a(b: ' + b"[" * 1900 + b'"}', 422),
            (b'{"query": "{ job }", "operationName": "\\ud800"}', 422),
            (LONE_SURROGATE, 422),
            (b"x" * 600_000, 413),
            (b'{"query": "{ job }", "variables": [' + b"{}," * 20_000 + b"{}]}", 400),
        ],
    )
    def test_invalid_request_gets_a_status_and_a_message(self, http, servers, body, status):
        response = http.post(servers.url, content=body)

        assert response.status_code == status
        assert response.json()["errors"][0]["message"]

    def test_port_in_use_is_a_config_error(self, servers, server_tls, capfd):
        port = urlsplit(servers.url).port

        with pytest.raises(ConfigError, match="could not listen"):
            graphql_server(
                host="127.0.0.1",
                port=port,
                tls=server_tls,
                service=new_graphql_service(lambda *_: "x"),
            ).start()
        with pytest.raises(ConfigError, match="could not listen"):
            new_sbatch_server(server_tls, servers.address.replace("localhost", "127.0.0.1")).start()

    def test_missing_certificate_is_a_config_error(self, tmp_path):
        tls = TlsFiles(certificate=tmp_path / "none", key=tmp_path / "none")

        with pytest.raises(ConfigError, match="could not read"):
            new_graphql_server(tls, lambda *_: "x")
        with pytest.raises(ConfigError, match="could not read"):
            new_sbatch_server(tls).start()
