# SPDX-License-Identifier: Apache-2.0
"""Sends requests to a node of the chain with the HTTP provider of web3.py.

Requests are sent in batches. Each read names its block by the block's hash, so a node on another
fork refuses the read. The provider does not repeat requests or cache answers, and has no
middleware. A service repeats a failed request in its next tick. The outbox repeats a transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from requests import ConnectionError as BrokenConnection
from requests import RequestException, Session
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ProtocolError
from web3 import HTTPProvider

from gridstead.domain.jobs.job import Block
from gridstead.errors import ChainUnavailable

REQUESTS_PER_BATCH = 100
TIMEOUT_S = 20.0
POOL_SIZE = 64  # connections that stay open; each server of the grid has fewer threads
# A message of a node reports a revert if it contains one of these texts. The message is first
# converted to lower case, and its spaces are removed.
_REVERT_FRAGMENTS = ("revert", "outofgas", "gasrequiredexceeds")
_REVERT_DATA = re.compile(r"(?:Reverted )?(0x(?:[0-9a-fA-F]{2})+)")

Request = tuple[str, list[Any]]  # method, parameters
EthCall = dict[str, str]  # the contract's address ``to``, and ``data``: selector and arguments


@dataclass(frozen=True, slots=True)
class RpcError:
    """The error that a node returned for one request.

    ``data`` is the revert data, 0x and hexadecimal digits. Without revert data, ``data`` is empty.
    """

    code: int
    message: str
    data: str

    @property
    def is_revert(self) -> bool:
        """Whether the contract reverted the call. If not, the node itself has failed."""
        message = self.message.lower().replace(" ", "")
        return bool(self.data) or any(fragment in message for fragment in _REVERT_FRAGMENTS)


class _Provider(HTTPProvider):
    """The provider of web3.py, which numbers the requests of each batch from 1."""

    def encode_batch_rpc_request(self, requests: list[tuple[Any, Any]]) -> bytes:
        """Return a batch as JSON."""
        body = []
        for number, (method, parameters) in enumerate(requests, 1):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
            body.append(request)
        return json.dumps(body).encode()

    @staticmethod
    def decode_rpc_response(raw_response: bytes) -> Any:  # noqa: ANN401
        """Return the answers to a batch. Each is an object with a number as its id."""
        answers = json.loads(raw_response)
        if not isinstance(answers, list) or not all(map(_is_answer, answers)):
            raise ValueError(f"not a batch answer: {str(answers)[:200]}")
        return answers


class Node:
    """A connection to a node. All methods are thread-safe.

    Args:
        url: The URL of the JSON-RPC endpoint.
        timeout_s: How long to wait for an answer.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._session = Session()
        self._session.trust_env = False  # ignore proxies, .netrc and CA files of the environment
        self._session.max_redirects = 0
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=POOL_SIZE))
        self._provider = _Provider(
            url, {"timeout": timeout_s}, self._session, exception_retry_configuration=None
        )

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def ask(self, method: str, *params: Any) -> Any:  # noqa: ANN401
        """Return the answer to one request.

        Raises:
            ChainUnavailable: If the node does not answer, or answers with an error.
        """
        (answer,) = self.batch([(method, list(params))])
        if isinstance(answer, RpcError):
            raise unavailable(answer, method)
        return answer

    def batch(self, requests: Sequence[Request]) -> list[Any]:
        """Return the answers in the order of the requests; ``RpcError`` for a failed request.

        Raises:
            ChainUnavailable: If the node does not answer.
        """
        answers: list[Any] = []
        for start in range(0, len(requests), REQUESTS_PER_BATCH):
            answers += self._send(list(requests[start : start + REQUESTS_PER_BATCH]))
        return answers

    def read(self, calls: Sequence[EthCall], *, at_block: Block) -> list[bytes | RpcError]:
        """Return the results of view calls at a block; ``RpcError`` for a call that reverted.

        Raises:
            ChainUnavailable: If the node does not answer, or the block is no longer in the chain.
        """
        block_parameter = {"blockHash": at_block.hash, "requireCanonical": True}
        results: list[bytes | RpcError] = []
        requests: list[Request] = [("eth_call", [call, block_parameter]) for call in calls]
        for answer in self.batch(requests):
            if isinstance(answer, RpcError) and not answer.is_revert:
                raise unavailable(answer, f"eth_call at block {at_block.number}")
            results.append(answer if isinstance(answer, RpcError) else to_bytes(answer))
        return results

    def _send(self, requests: list[Any]) -> list[Any]:
        try:
            answers: Any = self._post(requests)
        except RequestException as err:
            # The texts of the exception and of its causes contain the URL, which may contain an API
            # key.
            raise _unreachable(_reason(err)) from None
        except (ValueError, RecursionError) as err:
            raise _unreachable(f"{type(err).__name__}: {err}") from err
        answer_ids = [answer["id"] for answer in answers]
        request_ids = list(range(1, len(requests) + 1))
        if answer_ids != request_ids:
            raise _unreachable("an answer is missing from the batch")
        return list(map(_to_result, answers))

    def _post(self, requests: list[Any]) -> Any:  # noqa: ANN401
        """Return the answers. Send again if the server has just closed the idle connection.

        A repeated request is harmless: if it contains a transaction that the node already has, the
        sender of the transaction looks it up.
        """
        try:
            return self._provider.make_batch_request(requests)
        except BrokenConnection as err:
            is_closed_by_server = any(isinstance(cause, ProtocolError) for cause in err.args)
            if not is_closed_by_server:
                raise
            return self._provider.make_batch_request(requests)


def to_bytes(answer: Any) -> bytes:  # noqa: ANN401
    """Return the bytes in a node's answer.

    Raises:
        ChainUnavailable: If the answer is not 0x and hexadecimal digits.
    """
    try:
        return bytes.fromhex(answer.removeprefix("0x"))
    except (AttributeError, ValueError) as err:
        raise _unreachable(f"not hexadecimal digits: {str(answer)[:200]}") from err


def to_block(answer: Any) -> Block:  # noqa: ANN401
    """Return the block in a node's answer.

    Raises:
        ChainUnavailable: If the answer is not a block.
    """
    try:
        return Block(
            number=int(answer["number"], 16),
            hash=str(answer["hash"]),
            timestamp=int(answer["timestamp"], 16),
        )
    except (KeyError, TypeError, ValueError) as err:
        raise _unreachable(f"not a block: {str(answer)[:200]}") from err


def unavailable(error: RpcError, request: str) -> ChainUnavailable:
    """Return the error for a node's error that is not a revert. ``request`` names the request."""
    detail = f'{error.code}: "{error.message}"'
    return ChainUnavailable(f"could not get an answer to {request}", detail=detail)


def _unreachable(detail: str) -> ChainUnavailable:
    return ChainUnavailable("could not reach the chain", detail=detail)


def _reason(error: RequestException) -> str:
    if error.response is not None:
        return f"the node answers {error.response.status_code} {error.response.reason}"
    cause = error.args[0] if error.args else None
    cause = getattr(cause, "reason", cause)
    if not isinstance(cause, Exception):  # requests gives a text only for an invalid URL
        return "invalid URL"
    return f"{type(error).__name__}: {cause}"


def _is_answer(answer: object) -> bool:
    return isinstance(answer, dict) and isinstance(answer.get("id"), int)


def _to_result(answer: dict[str, Any]) -> Any:  # noqa: ANN401
    error = answer.get("error")
    if error is None:
        return answer.get("result")
    if not isinstance(error, dict):
        error = {"message": error}
    code, data = error.get("code"), error.get("data")
    if isinstance(data, dict):  # some nodes put the revert data one level deeper
        data = data.get("data")
    revert_data = _REVERT_DATA.fullmatch(data) if isinstance(data, str) else None
    return RpcError(
        code=code if isinstance(code, int) else 0,
        message=str(error.get("message", "")),
        data=revert_data[1] if revert_data else "",
    )
