# SPDX-License-Identifier: Apache-2.0
"""Test that the Job Definition service writes no secret to its output or its store."""

from __future__ import annotations

import base64
import json
import secrets
import sqlite3
import ssl
from pathlib import Path
from urllib.parse import quote

import grpc
import httpx
import pytest
from tests.adapters.chain.grids import join_real_grid
from tests.devnet import wallet
from tests.fakes.definitions import wire_workflow
from tests.fakes.definitions_process import KEY, DefinitionsProcess

from gridstead.adapters.channel import open_channel
from gridstead.adapters.definitions.job_definitions import SUBMIT, SUBMIT_FOR_CUSTOMER
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest, GetSBatchRequest
from gridstead.proto.sbatchapi_pb2_grpc import AuthAPIStub, SBatchAPIStub

LIMITS = {"unused_mib": 1, "upload_mib_per_hour": 4}


def new_secret():
    """Return a random text that URL escaping and URL-safe base64 change."""
    return f"hush/{secrets.token_hex(8)}+{secrets.token_hex(8)}="


def new_key():
    """Return a random WireGuard key."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


def encodings(secret):
    """Yield the encodings of a secret: plain, hexadecimal, URL-escaped, base64 at each offset."""
    text = secret.encode()
    yield text
    yield text.hex().encode()
    yield quote(secret, safe="").encode()
    yield quote(secret).encode()
    for offset in range(3):
        encoded_text = base64.b64encode(b"x" * offset + text)
        # The first and the last four characters also depend on the text around the secret.
        start = 4 if offset else 0
        inner = encoded_text[start:-4]
        yield inner
        yield inner.translate(bytes.maketrans(b"+/", b"-_"))


def find_leaked_names(named_secrets, data):
    """Return the names of the secrets that are in the data, in any encoding."""
    return [name for name, secret in named_secrets.items() if is_in(data, secret)]


def is_in(data, secret):
    return any(encoding in data for encoding in encodings(secret))


@pytest.mark.parametrize(
    "encode", [str, lambda text: quote(text, safe=""), lambda text: repr(text.encode().hex())]
)
def test_scan_detects_an_encoded_secret(encode):
    password = new_secret()

    data = f"before {encode(password)} after".encode()

    assert find_leaked_names({"password": password}, data) == ["password"]


@pytest.mark.parametrize("offset", range(6))
def test_scan_detects_a_secret_inside_base64(offset):
    password = new_secret()

    data = base64.b64encode(b"y" * offset + password.encode() + b"zz")

    assert find_leaked_names({"password": password}, b"{'a': " + data) == ["password"]


@pytest.fixture
def secret_texts():
    """The secrets, by name."""
    names = (
        "input key name", "input key", "output key name", "output key", "password", "token",
        "command", "variable", "item", "argument",
    )  # fmt: skip
    values = {"storage key": KEY, "log token key": "k" * 32}
    values |= {"tunnel": new_key(), "shared key": new_key()}
    for name in names:
        values[name] = new_secret()
    return values


def secret_store(secret_texts, name):
    """Return an S3 store with the secrets ``<name> key name`` and ``<name> key``."""
    return {
        "region": "eu",
        "bucketUrl": "s3://bucket",
        "path": "/x",
        "endpointUrl": "https://store.example",
        "accessKeyId": secret_texts[f"{name} key name"],
        "secretAccessKey": secret_texts[f"{name} key"],
    }


def secret_workflow(secret_texts, **changes):
    """Return a workflow with a secret in every field that may have one."""
    image = {
        "image": "a",
        "registry": "r.example",
        "username": secret_texts["password"],
        "password": secret_texts["password"],
    }
    tunnel = {
        "privateKey": secret_texts["tunnel"],
        "peers": [{"publicKey": new_key(), "preSharedKey": secret_texts["shared key"]}],
    }
    bore = {"boreAddress": "bore.example:1", "targetPort": 80, "secret": secret_texts["token"]}
    run = {
        "command": f"echo {secret_texts['command']}", "container": image, "network": "pasta",
        "env": [{"key": "A", "value": secret_texts["variable"]}],
        "customNetworkInterfaces": [{"wireguard": tunnel}, {"bore": bore}],
    }  # fmt: skip
    loop = {"parallel": False, "items": [secret_texts["item"]], "steps": [{"run": run}]}
    fields = {
        "steps": [{"for": loop}],
        "enableLogging": True,
        "input": {"s3": secret_store(secret_texts, "input")},
        "output": {"s3": secret_store(secret_texts, "output")},
    }
    return wire_workflow(**(fields | changes))


def refused_requests(secret_texts):
    """Yield GraphQL requests that the service refuses. Each request contains secrets."""
    job = secret_workflow(secret_texts)
    unknown_shell = {"run": {"command": secret_texts["command"], "shell": secret_texts["password"]}}
    module = {
        "source": "git.example/a/b",
        "args": [{"key": "A", "value": secret_texts["argument"]}],
    }
    large_step = {"run": {"command": "'" * 99_000}}
    inline = (
        f'mutation {{ submit(job: {{env: [{{key: "A", value: "{secret_texts["variable"]}"}}]}}) }}'
    )
    for refused_job in (
        secret_workflow(secret_texts, steps=[unknown_shell]),
        # A module that cannot be fetched.
        secret_workflow(secret_texts, steps=[{"use": module}]),
        # A secret as the name of a field, and as a value of the wrong type.
        job | {secret_texts["variable"]: secret_texts["password"]},
        job | {"env": secret_texts["password"]},
        # A script that is too long.
        secret_workflow(secret_texts, steps=[large_step] * 4),
    ):
        yield {"query": SUBMIT, "variables": {"job": refused_job}}
    yield {
        "query": SUBMIT_FOR_CUSTOMER,
        "variables": {"job": job, "customer": secret_texts["password"]},
    }
    yield {"query": inline}
    yield {"query": inline + "}"}  # a syntax error
    yield {"query": f'{{ job(batchLocationHash: "{secret_texts["password"]}") }}'}
    yield {
        "query": "mutation V($module: Module!) { validate(module: $module) }",
        "variables": {"module": job},
    }
    yield {"query": SUBMIT, "variables": [[[[job]]]] * 3, "operationName": secret_texts["password"]}


class GraphqlClient:
    """A client of the service's GraphQL API."""

    def __init__(self, process, secret_texts):
        context = ssl.create_default_context(cafile=process.authority.certificate)
        self._http = httpx.Client(verify=context, trust_env=False, timeout=30)
        self._url = process.url
        self._secret_texts = secret_texts

    def close(self):
        self._http.close()

    def submit(self):
        """Submit a workflow with secrets, and return the script's id."""
        body = {"query": SUBMIT, "variables": {"job": secret_workflow(self._secret_texts)}}
        return self._http.post(self._url, json=body).json()["data"]["submit"]

    def check_invalid_requests_are_refused(self):
        for request in refused_requests(self._secret_texts):
            assert self._http.post(self._url, json=request).json()["errors"], request

    def check_storage_is_limited(self):
        """Submit large scripts, and check that the service refuses the last script."""
        command = f"echo {self._secret_texts['command']}" + "x" * 90_000
        large_workflow = secret_workflow(self._secret_texts, steps=[{"run": {"command": command}}])
        body = {"query": SUBMIT, "variables": {"job": large_workflow}}
        for _ in range(13):  # more than ``unused_mib`` of LIMITS
            answer = self._http.post(self._url, json=body)
        assert "too many scripts" in answer.text

    def check_invalid_bodies_are_refused(self):
        """Send invalid JSON, too deeply nested JSON, and more data than the hourly limit."""
        request = {"query": SUBMIT, "variables": {"job": secret_workflow(self._secret_texts)}}
        body = json.dumps(request).encode()
        assert self._post(body[:-1]) == 400
        assert self._post(b"[" * 40 + body) == 400
        for _ in range(4):
            self._post(body * 500)
        assert self._post(body * 500) == 429
        assert self._post(body * 500) == 429

    def _post(self, body):
        """Post a body and return the HTTP status of the answer."""
        return self._http.post(self._url, content=body).status_code


class Provider:
    """A provider's wallet that requests scripts."""

    def __init__(self, process, chain, secret_texts):
        self._process = process
        self._wallet = chain.provider
        self._secret_texts = secret_texts

    def ask(self, job, *, signer=None, **changes):
        """Request a job's script. ``changes`` replaces fields of the valid request."""
        with open_channel(self._process.peer) as channel:
            challenge = AuthAPIStub(channel).Challenge(ChallengeRequest()).challenge
            fields = {
                "batch_location_hash": job.batch_location_hash, "challenge": challenge,
                "signed_challenge": (signer or self._wallet).sign_text(challenge),
                "provider_address": bytes.fromhex(self._wallet.address[2:]),
                "customer_address": bytes.fromhex(job.customer[2:]),
                "job_id": job.id.slurm_job_name, "secrets_beside": True,
            }  # fmt: skip
            request = GetSBatchRequest(**fields | changes)
            return SBatchAPIStub(channel).GetSBatch(request)

    def check_invalid_requests_are_refused(self, job):
        secret = self._secret_texts["password"]
        for changes in (
            {"signer": wallet(66)},
            {"signed_challenge": secret.encode()},
            {"challenge": secret.encode()},
            {"provider_address": secret.encode()},
            {"customer_address": b"\x01" * 20},
            {"job_id": secret},
            {"job_id": f"0x{77:064x}"},  # a job that does not exist
            {"batch_location_hash": secret},
            {"secrets_beside": False},
        ):
            with pytest.raises(grpc.RpcError):
                self.ask(job, **changes)


def test_no_secret_is_in_the_output_or_the_store(chain, tmp_path, secret_texts):
    grid = join_real_grid(chain)
    process = DefinitionsProcess(tmp_path, chain, limits=LIMITS)
    process.start()
    try:
        process.wait()
        client = GraphqlClient(process, secret_texts)
        script_id = client.submit()
        client.check_invalid_requests_are_refused()
        client.check_storage_is_limited()
        client.check_invalid_bodies_are_refused()
        client.close()
        number = grid.request(script_id)
        grid.match(number)
        job = grid.job(number)
        provider = Provider(process, chain, secret_texts)
        answer = provider.ask(job)
        provider.check_invalid_requests_are_refused(job)
        store = b"".join(map(Path.read_bytes, tmp_path.glob("state.db*")))
        make_scripts_unreadable(tmp_path / "state.db")
        with pytest.raises(grpc.RpcError):
            provider.ask(job)
        process.stop()
    finally:
        process.kill()

    output = process.output.read_bytes()
    for event in (b"workflow_stored", b"script_given", b"script_unreadable"):
        assert event in output
    assert b"Traceback" not in output
    # The answer to the provider contains the secrets. This shows that the service has read them,
    # so the scans below can detect a leak.
    delivered_names = set(find_leaked_names(secret_texts, b"\n".join(answer.secrets.values())))
    expected_names = {"input key", "output key", "password", "token", "tunnel", "shared key"}
    assert expected_names <= delivered_names
    assert script_id.encode() in store
    secret_texts["log token"] = answer.log_write_token
    assert find_leaked_names(secret_texts, output) == []
    assert find_leaked_names(secret_texts, store) == []


def make_scripts_unreadable(database):
    """Replace the encrypted scripts by zeros."""
    connection = sqlite3.connect(database)
    with connection:
        connection.execute("UPDATE definitions SET sealed = zeroblob(100)")
    connection.close()
