# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service's gRPC server for providers.

It serves AuthAPI and SBatchAPI of DeepSquare's wire format, with TLS. Status codes:

- UNAUTHENTICATED: the signature, the provider or the customer is wrong.
- NOT_FOUND: the script does not exist or belongs to another job.
- INTERNAL: the chain did not answer.
- RESOURCE_EXHAUSTED: the caller has exceeded its rate limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc

from gridstead.domain.definitions.job_definition import ScriptAnswer, ScriptRequest
from gridstead.domain.jobs.ids import JobId, parse_slurm_job_name
from gridstead.errors import (
    GridsteadError,
    InvalidInput,
    LimitExceeded,
    NotAllowed,
    Rejected,
    Transient,
)
from gridstead.proto.sbatchapi_pb2 import (
    ChallengeRequest,
    ChallengeResponse,
    GetSBatchRequest,
    GetSBatchResponse,
)
from gridstead.proto.sbatchapi_pb2_grpc import (
    AuthAPIServicer,
    SBatchAPIServicer,
    add_AuthAPIServicer_to_server,
    add_SBatchAPIServicer_to_server,
)
from gridstead.rpc.rate_limit import RateLimiter, grpc_caller
from gridstead.rpc.tls import TlsFiles, add_health, bind, grpc_server

THREADS = 16
ADDRESS_BYTES = 20
STOP_GRACE_S = 1.0

Challenge = Callable[[str], bytes]
GetSBatch = Callable[[ScriptRequest], ScriptAnswer]
ToJobId = Callable[[int], JobId]

_STATUS_CODES: tuple[tuple[type[GridsteadError], grpc.StatusCode], ...] = (
    (LimitExceeded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (NotAllowed, grpc.StatusCode.UNAUTHENTICATED),
    (InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (Rejected, grpc.StatusCode.NOT_FOUND),
    (Transient, grpc.StatusCode.INTERNAL),
)


class SBatchServer:
    """The server.

    Args:
        address: ``host:port`` to listen on. Port 0 selects a free port.
        tls: Certificate and key of the server.
        challenge: Returns a challenge for the address of a wallet. If the address is empty, any
            wallet may use the challenge.
        get_sbatch: Returns the script for a request.
        call_limiter: Limits the number of calls of each caller.
        to_job_id: Returns the job id of a job number.
    """

    def __init__(
        self,
        address: str,
        tls: TlsFiles,
        *,
        challenge: Challenge,
        get_sbatch: GetSBatch,
        call_limiter: RateLimiter,
        to_job_id: ToJobId,
    ) -> None:
        self._server = grpc_server(threads=THREADS)
        # The generated functions have no types.
        auth = _Auth(challenge, call_limiter)
        add_AuthAPIServicer_to_server(auth, self._server)  # type: ignore[no-untyped-call]
        sbatch = _SBatch(get_sbatch, call_limiter, to_job_id)
        add_SBatchAPIServicer_to_server(sbatch, self._server)  # type: ignore[no-untyped-call]
        add_health(self._server)
        self._address = address
        self._tls = tls

    def start(self) -> int:
        """Start the server and return the port.

        Raises:
            ConfigError: If the address cannot be bound.
        """
        port = bind(self._server, self._address, self._tls)
        self._server.start()
        return port

    def stop(self) -> None:
        """Stop the server. Calls in progress have a second to finish."""
        self._server.stop(STOP_GRACE_S).wait()


class _Auth(AuthAPIServicer):
    def __init__(self, challenge: Challenge, call_limiter: RateLimiter) -> None:
        self._challenge = challenge
        self._call_limiter = call_limiter

    def Challenge(  # noqa: N802 # the wire's name
        self, request: ChallengeRequest, context: grpc.ServicerContext
    ) -> ChallengeResponse:
        with _abort_on_error(context):
            self._call_limiter.take(grpc_caller(context.peer(), context.invocation_metadata()))
            address = _address(request.provider_address) if request.provider_address else ""
            return ChallengeResponse(challenge=self._challenge(address))


class _SBatch(SBatchAPIServicer):
    def __init__(
        self, get_sbatch: GetSBatch, call_limiter: RateLimiter, to_job_id: ToJobId
    ) -> None:
        self._get_sbatch = get_sbatch
        self._call_limiter = call_limiter
        self._to_job_id = to_job_id

    def GetSBatch(  # noqa: N802
        self, request: GetSBatchRequest, context: grpc.ServicerContext
    ) -> GetSBatchResponse:
        with _abort_on_error(context):
            self._call_limiter.take(grpc_caller(context.peer(), context.invocation_metadata()))
            answer = self._get_sbatch(_from_wire(request, self._to_job_id))
        return GetSBatchResponse(
            sbatch=answer.script,
            grid_logger_url=answer.logger_url,
            secrets=dict(answer.secrets),
            log_write_token=answer.log_write_token,
        )


@contextmanager
def _abort_on_error(context: grpc.ServicerContext) -> Iterator[None]:
    """End the call with the status code of a GridsteadError."""
    try:
        yield
    except GridsteadError as err:
        context.abort(_status_of(err), str(err))


def _status_of(err: GridsteadError) -> grpc.StatusCode:
    for error_type, code in _STATUS_CODES:
        if isinstance(err, error_type):
            return code
    return grpc.StatusCode.UNKNOWN


def _from_wire(request: GetSBatchRequest, to_job_id: ToJobId) -> ScriptRequest:
    number = parse_slurm_job_name(request.job_id.lower())
    if number is None:
        raise InvalidInput("malformed job id", hint="A job id is 0x and 64 hexadecimal digits.")
    return ScriptRequest(
        batch_location_hash=request.batch_location_hash,
        challenge=request.challenge,
        signature=request.signed_challenge,
        provider=_address(request.provider_address),
        customer=_address(request.customer_address),
        job_id=to_job_id(number),
        secrets_beside=request.secrets_beside,
    )


def _address(value: bytes) -> str:
    if len(value) != ADDRESS_BYTES:
        raise InvalidInput("malformed address", hint=f"An address is {ADDRESS_BYTES} bytes.")
    return f"0x{value.hex()}"
