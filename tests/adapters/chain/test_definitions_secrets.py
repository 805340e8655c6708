# SPDX-License-Identifier: Apache-2.0
"""No secret of a customer, a provider or the operator is in the service's output or its store."""

from __future__ import annotations

import base64
import json
import secrets
import sqlite3
import ssl
from urllib.parse import quote

import grpc
import httpx
import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.devnet import wallet
from tests.fakes.definitions import wire_workflow
from tests.fakes.definitions_process import KEY, DefinitionsProcess

from gridstead.adapters.channel import open_channel
from gridstead.adapters.definitions.job_definitions import SUBMIT, SUBMIT_FOR
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest, GetSBatchRequest
from gridstead.proto.sbatchapi_pb2_grpc import AuthAPIStub, SBatchAPIStub

LIMITS = {"unused_mib": 1, "upload_mib_per_hour": 4}


def new_secret():
    """Return a text with characters that every encoding changes."""
    return f"hush/{secrets.token_hex(8)}+{secrets.token_hex(8)}="


def new_key():
    return base64.b64encode(secrets.token_bytes(32)).decode()


def encodings(secret):
    """Yield the encodings of a secret: plain, URL-escaped, base64 at any offset."""
    text = secret.encode()
    for before in range(3):
        whole = base64.b64encode(b"x" * before + text)
        inner = whole[4 if before else 0 : len(whole) // 4 * 4 - 4]
        yield inner
        yield inner.translate(bytes.maketrans(b"+/", b"-_"))
    yield from (text, text.hex().encode(), quote(secret, safe="").encode(), quote(secret).encode())


def leaked(kept, data):
    """Return the names of the secrets that are in the data."""
    return [name for name, secret in kept.items() if is_in(data, secret)]


def is_in(data, secret):
    return any(encoding in data for encoding in encodings(secret))


@pytest.mark.parametrize(
    "write", [str, lambda text: quote(text, safe=""), lambda text: repr(text.encode().hex())]
)
def test_scan_detects_an_encoded_secret(write):
    kept = {"password": new_secret()}

    assert leaked(kept, f"before {write(kept['password'])} after".encode()) == ["password"]


@pytest.mark.parametrize("before", range(6))
def test_scan_detects_a_secret_inside_base64(before):
    kept = {"password": new_secret()}

    data = base64.b64encode(b"y" * before + kept["password"].encode() + b"zz")

    assert leaked(kept, b"{'a': " + data) == ["password"]


@pytest.fixture
def kept():
    """The secrets, by name."""
    names = (
        "input key name", "input key", "output key name", "output key", "password", "token",
        "command", "variable", "item", "argument",
    )  # fmt: skip
    keys = {name: new_key() for name in ("tunnel", "shared key")}
    return (
        {name: new_secret() for name in names}
        | keys
        | {"storage key": KEY, "log token key": "k" * 32}
    )


def secret_workflow(kept, **changes):
    """Return a workflow with a secret in every field that may have one."""

    def store(which):
        return {
            "region": "eu",
            "bucketUrl": "s3://bucket",
            "path": "/x",
            "endpointUrl": "https://store.example",
            "accessKeyId": kept[f"{which} key name"],
            "secretAccessKey": kept[f"{which} key"],
        }

    image = {
        "image": "a",
        "registry": "r.example",
        "username": kept["password"],
        "password": kept["password"],
    }
    tunnel = {
        "privateKey": kept["tunnel"],
        "peers": [{"publicKey": new_key(), "preSharedKey": kept["shared key"]}],
    }
    bore = {"boreAddress": "bore.example:1", "targetPort": 80, "secret": kept["token"]}
    run = {
        "command": f"echo {kept['command']}", "container": image, "network": "pasta",
        "env": [{"key": "A", "value": kept["variable"]}],
        "customNetworkInterfaces": [{"wireguard": tunnel}, {"bore": bore}],
    }  # fmt: skip
    loop = {"parallel": False, "items": [kept["item"]], "steps": [{"run": run}]}
    ends = {"input": {"s3": store("input")}, "output": {"s3": store("output")}}
    return wire_workflow(**{"steps": [{"for": loop}], "enableLogging": True, **ends, **changes})


def refused_requests(kept):
    """Yield requests to GraphQL that are refused, each with a secret of its caller."""
    job = secret_workflow(kept)
    broken = secret_workflow(
        kept, steps=[{"run": {"command": kept["command"], "shell": kept["password"]}}]
    )
    used = {"source": "git.example/a/b", "args": [{"key": "A", "value": kept["argument"]}]}
    text = f'mutation {{ submit(job: {{env: [{{key: "A", value: "{kept["variable"]}"}}]}}) }}'
    yield {"query": SUBMIT, "variables": {"job": broken}}
    yield {"query": SUBMIT, "variables": {"job": secret_workflow(kept, steps=[{"use": used}])}}
    yield {"query": SUBMIT, "variables": {"job": job | {kept["variable"]: kept["password"]}}}
    yield {"query": SUBMIT, "variables": {"job": job | {"env": kept["password"]}}}
    yield {
        "query": SUBMIT,
        "variables": {"job": secret_workflow(kept, steps=[{"run": {"command": "'" * 99_000}}] * 4)},
    }
    yield {"query": SUBMIT_FOR, "variables": {"job": job, "customer": kept["password"]}}
    yield {"query": text}
    yield {"query": text + "}"}
    yield {"query": f'{{ job(batchLocationHash: "{kept["password"]}") }}'}
    yield {
        "query": "mutation V($module: Module!) { validate(module: $module) }",
        "variables": {"module": job},
    }
    yield {"query": SUBMIT, "variables": [[[[job]]]] * 3, "operationName": kept["password"]}


def ask_graphql(process, kept):
    """Submit a workflow, then send requests that are refused; return the script's id."""
    context = ssl.create_default_context(cafile=process.authority.certificate)
    with httpx.Client(verify=context, trust_env=False, timeout=30) as http:
        script_id = http.post(
            process.url, json={"query": SUBMIT, "variables": {"job": secret_workflow(kept)}}
        ).json()
        for request in refused_requests(kept):
            assert http.post(process.url, json=request).json()["errors"], request
        large = secret_workflow(
            kept, steps=[{"run": {"command": f"echo {kept['command']}" + "x" * 90_000}}]
        )
        body = {"query": SUBMIT, "variables": {"job": large}}
        answers = [http.post(process.url, json=body).text for _ in range(13)]
        assert "too many scripts" in answers[-1]
        body = json.dumps({"query": SUBMIT, "variables": {"job": secret_workflow(kept)}}).encode()
        assert http.post(process.url, content=body[:-1]).status_code == 400
        assert http.post(process.url, content=b"[" * 40 + body).status_code == 400
        assert [http.post(process.url, content=body * 500).status_code for _ in range(6)][-2:] == [
            429,
            429,
        ]
    return script_id["data"]["submit"]


class Provider:
    """A provider's wallet that requests scripts."""

    def __init__(self, process, chain, kept):
        self._process = process
        self._wallet = chain.provider
        self._kept = kept

    def ask(self, job, *, signer=None, **changes):
        """Request a job's script, with changes to a valid request."""
        with open_channel(self._process.peer) as channel:
            challenge = AuthAPIStub(channel).Challenge(ChallengeRequest()).challenge
            known = {
                "batch_location_hash": job.batch_location_hash, "challenge": challenge,
                "signed_challenge": (signer or self._wallet).sign_text(challenge),
                "provider_address": bytes.fromhex(self._wallet.address[2:]),
                "customer_address": bytes.fromhex(job.customer[2:]),
                "job_id": job.id.slurm_name, "secrets_beside": True,
            }  # fmt: skip
            return SBatchAPIStub(channel).GetSBatch(GetSBatchRequest(**known | changes))

    def is_refused(self, job):
        """Check that every invalid request is refused."""
        secret = self._kept["password"]
        for changes in (
            {"signer": wallet(66)},
            {"signed_challenge": secret.encode()},
            {"challenge": secret.encode()},
            {"provider_address": secret.encode()},
            {"customer_address": b"\x01" * 20},
            {"job_id": secret},
            {"job_id": f"0x{77:064x}"},
            {"batch_location_hash": secret},
            {"secrets_beside": False},
        ):
            with pytest.raises(grpc.RpcError):
                self.ask(job, **changes)


def test_no_secret_is_in_the_output_or_the_store(chain, tmp_path, kept):
    grid = RealGrid(chain)
    grid.register()
    grid.approve()
    process = DefinitionsProcess(tmp_path, chain, limits=LIMITS)
    process.start()
    try:
        process.wait()
        script_id = ask_graphql(process, kept)
        number = grid.request(script_id)
        grid.match(number)
        job = grid.job(number)
        provider = Provider(process, chain, kept)
        answer = provider.ask(job)
        provider.is_refused(job)
        store = b"".join(path.read_bytes() for path in tmp_path.glob("state.db*"))
        with sqlite3.connect(tmp_path / "state.db") as connection:
            connection.execute("UPDATE definitions SET sealed = zeroblob(100)")
        connection.close()
        with pytest.raises(grpc.RpcError):
            provider.ask(job)
        process.stop()
    finally:
        process.kill()

    output = process.output.read_bytes()
    for event in (b"workflow_stored", b"script_given", b"script_unreadable"):
        assert event in output
    assert b"Traceback" not in output
    delivered = set(leaked(kept, b"\n".join(answer.secrets.values())))
    assert {"input key", "output key", "password", "token", "tunnel", "shared key"} <= delivered
    assert script_id.encode() in store
    kept["log token"] = answer.log_write_token
    assert leaked(kept, output) == []
    assert leaked(kept, store) == []
