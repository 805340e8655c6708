# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service's gRPC server towards providers: AuthAPI and SBatchAPI on DeepSquare's wire, with TLS.

Status codes are the wire's: UNAUTHENTICATED for a wrong signature, provider or customer, NOT_FOUND for a script that is
not there or not for this job, INTERNAL when the chain could not be asked.
"""

from __future__ import annotations

from collections.abc import Callable

import grpc

from gridstead.domain.ids import parse_slurm_name
from gridstead.domain.job_definition import ScriptAnswer, ScriptRequest
from gridstead.errors import GridsteadError, InvalidInput, NotAllowed, Rejected, Transient
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
from gridstead.rpc.tls import TlsFiles, add_health, bind, grpc_server

THREADS = 16
ADDRESS_BYTES = 20
STOP_S = 1.0

Challenge = Callable[[], bytes]
GetSBatch = Callable[[ScriptRequest], ScriptAnswer]

_CODES: tuple[tuple[type[GridsteadError], grpc.StatusCode], ...] = (
    (NotAllowed, grpc.StatusCode.UNAUTHENTICATED),
    (InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (Rejected, grpc.StatusCode.NOT_FOUND),
    (Transient, grpc.StatusCode.INTERNAL),
)


class SBatchServer:
    """The server.

    Args:
        address: ``host:port`` to listen on; port 0 takes a free one.
        tls: Its identity.
        challenge: Returns something to be signed.
        get_sbatch: Returns the script that a request may have.
    """

    def __init__(self, address: str, tls: TlsFiles, *, challenge: Challenge, get_sbatch: GetSBatch) -> None:
        self._server = grpc_server(threads=THREADS)
        add_AuthAPIServicer_to_server(_Auth(challenge), self._server)  # type: ignore[no-untyped-call] # generated
        add_SBatchAPIServicer_to_server(_SBatch(get_sbatch), self._server)  # type: ignore[no-untyped-call]
        add_health(self._server)
        self._address = address
        self._tls = tls

    def start(self) -> int:
        """Begin to answer and return the port.

        Raises:
            ConfigError: If the address cannot be listened on.
        """
        port = bind(self._server, self._address, self._tls)
        self._server.start()
        return port

    def stop(self) -> None:
        """Answer no more; calls that run get a second."""
        self._server.stop(STOP_S).wait()


class _Auth(AuthAPIServicer):
    def __init__(self, challenge: Challenge) -> None:
        self._challenge = challenge

    def Challenge(self, _request: ChallengeRequest, _context: grpc.ServicerContext) -> ChallengeResponse:  # noqa: N802
        return ChallengeResponse(challenge=self._challenge())


class _SBatch(SBatchAPIServicer):
    def __init__(self, get_sbatch: GetSBatch) -> None:
        self._get_sbatch = get_sbatch

    def GetSBatch(self, request: GetSBatchRequest, context: grpc.ServicerContext) -> GetSBatchResponse:  # noqa: N802
        try:
            answer = self._get_sbatch(_from_wire(request))
        except GridsteadError as err:
            code = next((code for kind, code in _CODES if isinstance(err, kind)), grpc.StatusCode.UNKNOWN)
            context.abort(code, str(err))
            raise AssertionError("abort raises") from err
        return GetSBatchResponse(
            sbatch=answer.script,
            grid_logger_url=answer.logger_url,
            secrets=dict(answer.secrets),
            log_write_token=answer.log_write_token,
        )


def _from_wire(request: GetSBatchRequest) -> ScriptRequest:
    number = parse_slurm_name(request.job_id.lower())
    if number is None:
        raise InvalidInput("malformed job id", hint="A job id is 0x and 64 hexadecimal digits.")
    return ScriptRequest(
        batch_location_hash=request.batch_location_hash,
        challenge=request.challenge,
        signature=request.signed_challenge,
        provider=_address(request.provider_address),
        customer=_address(request.customer_address),
        job_number=number,
        secrets_beside=request.secrets_beside,
    )


def _address(value: bytes) -> str:
    if len(value) != ADDRESS_BYTES:
        raise InvalidInput("malformed address", hint=f"An address is {ADDRESS_BYTES} bytes.")
    return f"0x{value.hex()}"
