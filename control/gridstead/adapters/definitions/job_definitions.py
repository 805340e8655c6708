# SPDX-License-Identifier: Apache-2.0
"""The clients of the Job Definition service.

A provider fetches scripts over gRPC. A customer submits workflows over GraphQL.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.domain.jobs.job import Job
from gridstead.domain.supervisor.submission import Script
from gridstead.errors import (
    ConfigError,
    InvalidWorkflow,
    JobDefinitionUnavailable,
    Rejected,
    ScriptUnavailable,
    UnexpectedOutput,
    WorkflowProblem,
)
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest, GetSBatchRequest, GetSBatchResponse
from gridstead.proto.sbatchapi_pb2_grpc import AuthAPIStub, SBatchAPIStub

TIMEOUT_S = 10.0
SUBMIT = "mutation Submit($job: Job!) { submit(job: $job) }"
UNKNOWN_CUSTOMER = 'Unknown argument "customer"'
SUBMIT_FOR_CUSTOMER = (
    "mutation Submit($job: Job!, $customer: String) { submit(job: $job, customer: $customer) }"
)

Sign = Callable[[bytes], bytes]
"""Returns the EIP-191 signature of a message, 65 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderWallet:
    """The wallet of a provider: the wallet's address and a function that signs with its key."""

    address: str
    sign: Sign


class JobDefinitionClient:
    """Implements port ``ScriptSource``.

    Args:
        peer: Address and certificates of the service.
        wallet: The provider's wallet.
        logger_ca_file: The path, on compute nodes, of the logger's CA file. None for the system's
            CAs.
    """

    def __init__(
        self, peer: GrpcPeer, wallet: ProviderWallet, *, logger_ca_file: str | None = None
    ) -> None:
        self._peer = peer
        self._wallet = wallet
        self._logger_ca_file = logger_ca_file
        self._channel = open_channel(peer)
        self._auth = AuthAPIStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._sbatch = SBatchAPIStub(self._channel)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def fetch(self, job: Job) -> Script:
        """Sign a challenge of the service and return the job's script.

        The status NOT_FOUND is a final error. Every other refusal may have a temporary reason, such
        as a chain node that lags.
        """
        try:
            response = self._fetch(job)
        except grpc.RpcError as err:
            raise self._translate(err, job) from err
        environment = {}
        for name, value in response.secrets.items():
            environment[name] = self._decode_secret(name, value)
        if environment and self._logger_ca_file:
            environment["GRIDSTEAD_LOGGER_CA"] = self._logger_ca_file
        return Script(text=response.sbatch, environment=environment)

    def _decode_secret(self, name: str, value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError as err:
            raise UnexpectedOutput(
                self._peer.address, f"secret {name}: {err.reason} at byte {err.start}"
            ) from err

    def _fetch(self, job: Job) -> GetSBatchResponse:
        try:
            return self._sign_and_fetch(job)
        except grpc.RpcError as err:
            if err.code() is not grpc.StatusCode.UNAUTHENTICATED:
                raise
        # The service refuses older challenges after a change of its key, so try once more.
        return self._sign_and_fetch(job)

    def _sign_and_fetch(self, job: Job) -> GetSBatchResponse:
        provider = bytes.fromhex(self._wallet.address[2:])
        challenge = self._auth.Challenge(
            ChallengeRequest(provider_address=provider), timeout=TIMEOUT_S
        ).challenge
        request = GetSBatchRequest(
            batch_location_hash=job.batch_location_hash,
            signed_challenge=self._wallet.sign(challenge),
            challenge=challenge,
            provider_address=provider,
            customer_address=bytes.fromhex(job.customer[2:]),
            job_id=job.id.slurm_job_name,
            secrets_beside=True,
        )
        response: GetSBatchResponse = self._sbatch.GetSBatch(request, timeout=TIMEOUT_S)
        return response

    def _translate(self, err: grpc.RpcError, job: Job) -> Rejected | JobDefinitionUnavailable:
        code = err.code()
        detail = f"{code.name}: {err.details()!r}"
        if code is grpc.StatusCode.NOT_FOUND:
            return ScriptUnavailable(f"no script for job {job.id.slurm_job_name}", detail=detail)
        return JobDefinitionUnavailable(
            f"could not fetch a script from {self._peer.address}", detail=detail
        )


def submit_workflow(
    url: str, job: Mapping[str, object], *, ca: Path | None = None, customer: str = ""
) -> str:
    """Submit a workflow and return the id of its script.

    Args:
        url: ``https://host:port/graphql``.
        job: The workflow, as ``Workflow.to_graphql`` returns it.
        ca: PEM file of the service's CA. None for the system's CAs.
        customer: Address of the script's owner. If the address is empty, the owner is the first
            customer whose job names the script.

    Raises:
        InvalidWorkflow: If the service rejected the workflow. Nothing is stored.
        JobDefinitionUnavailable: If the service did not answer, did not answer with JSON, or has an
            internal error.
        UnexpectedOutput: If the JSON of the answer has another format.
        ConfigError: If the CA file cannot be read.
    """
    variables = {"job": job, "customer": customer} if customer else {"job": job}
    body = {
        "query": SUBMIT_FOR_CUSTOMER if customer else SUBMIT,
        "operationName": "Submit",
        "variables": variables,
    }
    try:
        response = httpx.post(
            url, json=body, verify=_ssl_context(ca), timeout=TIMEOUT_S, trust_env=False
        )
        answer = response.json()
    except (httpx.HTTPError, ValueError) as err:
        raise JobDefinitionUnavailable(f"could not submit to {url}", detail=str(err)) from err
    try:
        errors = answer.get("errors")
        if errors and customer and _rejects_customer(errors):
            return submit_workflow(url, job, ca=ca)
        if errors:
            raise _to_error(errors)
        return str(answer["data"]["submit"])
    except (AttributeError, KeyError, TypeError, IndexError) as err:
        raise UnexpectedOutput(url, response.text) from err


def _rejects_customer(errors: list[dict[str, Any]]) -> bool:
    """Return whether the service rejects the argument ``customer``. DeepSquare's service does."""
    return any(UNKNOWN_CUSTOMER in str(error["message"]) for error in errors)


def _to_error(errors: list[dict[str, Any]]) -> InvalidWorkflow | JobDefinitionUnavailable:
    extensions = errors[0].get("extensions", {})
    if extensions.get("type") == "internal":
        return JobDefinitionUnavailable("could not submit", detail=str(errors[0]["message"]))
    return InvalidWorkflow(*map(_to_problem, errors))


def _to_problem(error: Mapping[str, Any]) -> WorkflowProblem:
    extensions = error.get("extensions", {})
    if "original_message" not in extensions:
        return WorkflowProblem(path="", reason=str(error["message"]))
    return WorkflowProblem(
        path=str(extensions.get("namespace", "")),
        reason=str(extensions["original_message"]),
        hint=extensions.get("hint"),
    )


def _ssl_context(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as err:
        raise ConfigError(f"could not read {ca}", detail=str(err)) from err
