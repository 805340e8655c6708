# SPDX-License-Identifier: Apache-2.0
"""A JSON-RPC client for a node of the chain, over HTTP.

Reads are sent in batches. Each read names its block by the block's hash, so a node on another fork
refuses the read. Callers see no part of HTTP or JSON-RPC except ``RpcError``, which the other
modules of this package interpret.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from gridstead.domain.jobs.job import Block
from gridstead.errors import ChainUnavailable

REQUESTS_PER_BATCH = 100
TIMEOUT_S = 20.0
# A message of a node reports a revert if it contains one of these texts. The message is first
# converted to lower case, and its spaces are removed.
_REVERT_FRAGMENTS = ("revert", "outofgas", "gasrequiredexceeds")


@dataclass(frozen=True, slots=True)
class RpcError:
    """The error that a node returned for one request.

    Attributes:
        code: JSON-RPC error code.
        message: The node's error message.
        data: Revert data, 0x and hexadecimal digits; empty if there is none.
    """

    code: int
    message: str
    data: str

    @property
    def is_revert(self) -> bool:
        """Whether the contract reverted the call. If not, the node itself has failed."""
        message = self.message.lower().replace(" ", "")
        return bool(self.data) or any(fragment in message for fragment in _REVERT_FRAGMENTS)


@dataclass(frozen=True, slots=True)
class EthCall:
    """A call of a view function of a contract.

    Attributes:
        to: The contract's address.
        data: Selector and arguments, 0x and hexadecimal digits.
    """

    to: str
    data: str


Request = tuple[str, list[Any]]  # method, parameters


class Node:
    """A connection to a node. It is thread-safe.

    Args:
        url: The URL of the JSON-RPC endpoint.
        timeout_s: How long to wait for an answer.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._client = httpx.Client(timeout=timeout_s, trust_env=False)
        self._ids = itertools.count(1)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

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
            answers += self._post(requests[start : start + REQUESTS_PER_BATCH])
        return answers

    def read(self, reads: Sequence[EthCall], *, at_block: Block) -> list[bytes | RpcError]:
        """Return the results of view calls at a block, in the order of the calls.

        The result of a call that the contract reverted is an ``RpcError``.

        Raises:
            ChainUnavailable: If the node does not answer, or the block is no longer in the chain.
        """
        pin = {"blockHash": at_block.hash, "requireCanonical": True}
        calls = [{"to": read.to, "data": read.data} for read in reads]
        requests: list[Request] = [("eth_call", [call, pin]) for call in calls]
        results: list[bytes | RpcError] = []
        for answer in self.batch(requests):
            if isinstance(answer, RpcError):
                if not answer.is_revert:
                    raise unavailable(answer, f"eth_call at block {at_block.number}")
                results.append(answer)
            else:
                results.append(bytes.fromhex(answer[2:]))
        return results

    def _post(self, requests: Iterable[Request]) -> list[Any]:
        body = [
            {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
            for method, params in requests
        ]
        try:
            response = self._send(body)
            response.raise_for_status()
            answers = response.json()
        except httpx.HTTPStatusError as err:
            # The exception's own message has the URL, which may contain an API key.
            detail = f"the node answers {err.response.status_code} {err.response.reason_phrase}"
            raise _unreachable(detail) from err
        except (httpx.HTTPError, ValueError) as err:
            raise _unreachable(f"{type(err).__name__}: {err}") from err
        if not isinstance(answers, list):
            raise _unreachable(f"not a batch answer: {str(answers)[:200]}")
        by_id = {answer.get("id"): answer for answer in answers}
        results = []
        for request in body:
            if request["id"] not in by_id:
                raise _unreachable("an answer is missing from the batch")
            results.append(_result(by_id[request["id"]]))
        return results

    def _send(self, body: list[dict[str, Any]]) -> httpx.Response:
        """Return the response. Send again if the server has just closed the idle connection.

        A repeated request is harmless.
        """
        try:
            return self._client.post(self._url, json=body)
        except httpx.RemoteProtocolError:
            return self._client.post(self._url, json=body)


def _unreachable(detail: str) -> ChainUnavailable:
    return ChainUnavailable("could not reach the chain", detail=detail)


def unavailable(error: RpcError, request: str) -> ChainUnavailable:
    """Return the error to raise for a node's error that is not a revert.

    Args:
        error: The node's answer.
        request: The name of the request, which the message contains.
    """
    return ChainUnavailable(
        f"could not get an answer to {request}", detail=f'{error.code}: "{error.message}"'
    )


def to_block(answer: dict[str, Any]) -> Block:
    """Return the block in a node's answer."""
    return Block(
        number=int(answer["number"], 16),
        hash=answer["hash"],
        timestamp=int(answer["timestamp"], 16),
    )


def _result(answer: dict[str, Any]) -> Any:  # noqa: ANN401
    error = answer.get("error")
    if error is None:
        return answer.get("result")
    data = error.get("data")
    if isinstance(data, dict):  # some nodes put the revert data one level deeper
        data = data.get("data")
    has_data = isinstance(data, str) and data.startswith("0x") and data != "0x"
    return RpcError(
        code=int(error.get("code", 0)),
        message=str(error.get("message", "")),
        data=str(data) if has_data else "",
    )
