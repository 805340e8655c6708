# SPDX-License-Identifier: Apache-2.0
"""JSON-RPC to a node of the chain, over HTTP.

Reads go in batches, and each is pinned to a block by its hash, so an answer can only be of the
history it was asked of. Nothing of HTTP or JSON-RPC leaves this module but ``RpcError``, which
other modules of the adapter interpret.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from gridstead.domain.job import Block
from gridstead.errors import ChainUnavailable

REQUESTS_PER_BATCH = 100
TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class RpcError:
    """A node's refusal of one request.

    Attributes:
        code: JSON-RPC error code.
        message: The node's words.
        data: Revert data, 0x and hexadecimal digits; empty if there is none.
    """

    code: int
    message: str
    data: str

    @property
    def is_revert(self) -> bool:
        """Whether the contract refused, and not the node."""
        words = self.message.lower().replace(" ", "")
        return bool(self.data) or any(
            text in words for text in ("revert", "outofgas", "gasrequiredexceeds")
        )


@dataclass(frozen=True, slots=True)
class EthCall:
    """A call of a view: contract address, and selector and arguments as 0x and hexadecimal digits."""

    to: str
    data: str


Request = tuple[str, list[Any]]


class Node:
    """A connection to a node. Any thread may use it.

    Args:
        url: Of its JSON-RPC endpoint.
        timeout_s: How long an answer may take.
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
            ChainUnavailable: There was no answer, or an error.
        """
        (answer,) = self.batch([(method, list(params))])
        if isinstance(answer, RpcError):
            raise unavailable(answer, method)
        return answer

    def batch(self, requests: Sequence[Request]) -> list[Any]:
        """Return the answers to several requests, in their order; an ``RpcError`` where the node
        refused.

        Raises:
            ChainUnavailable: There was no answer.
        """
        answers: list[Any] = []
        for start in range(0, len(requests), REQUESTS_PER_BATCH):
            answers += self._post(requests[start : start + REQUESTS_PER_BATCH])
        return answers

    def read(self, reads: Sequence[EthCall], *, at_block: Block) -> list[bytes | RpcError]:
        """Return what views answer at that block; an ``RpcError`` where a contract reverted.

        Raises:
            ChainUnavailable: There was no answer, or the block is not in the chain any more.
        """
        pin = {"blockHash": at_block.hash, "requireCanonical": True}
        answers = self.batch(
            [("eth_call", [{"to": read.to, "data": read.data}, pin]) for read in reads]
        )
        results: list[bytes | RpcError] = []
        for answer in answers:
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
            # Its own words have the address, which may hold a key.
            told = f"the node answers {err.response.status_code} {err.response.reason_phrase}"
            raise ChainUnavailable("could not reach the chain", detail=told) from err
        except (httpx.HTTPError, ValueError) as err:
            raise ChainUnavailable(
                "could not reach the chain", detail=f"{type(err).__name__}: {err}"
            ) from err
        if not isinstance(answers, list):
            raise ChainUnavailable(
                "could not reach the chain", detail=f"not a batch answer: {str(answers)[:200]}"
            )
        by_id = {answer.get("id"): answer for answer in answers}
        if any(request["id"] not in by_id for request in body):
            raise ChainUnavailable(
                "could not reach the chain", detail="an answer is missing from the batch"
            )
        return [_result(by_id[request["id"]]) for request in body]

    def _send(self, body: list[dict[str, Any]]) -> httpx.Response:
        """Return the answer, on a new connection if the server had just closed the kept one; no
        request harms twice.
        """
        try:
            return self._client.post(self._url, json=body)
        except httpx.RemoteProtocolError:
            return self._client.post(self._url, json=body)


def unavailable(error: RpcError, what: str) -> ChainUnavailable:
    """Return our error for a refusal that is not a contract's."""
    return ChainUnavailable(
        f"could not get an answer to {what}", detail=f'{error.code}: "{error.message}"'
    )


def to_block(answer: dict[str, Any]) -> Block:
    """Return a block as a node tells it."""
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
    if isinstance(data, dict):
        data = data.get("data")
    text = data if isinstance(data, str) and data.startswith("0x") and len(data) > 2 else ""
    return RpcError(
        code=int(error.get("code", 0)), message=str(error.get("message", "")), data=text
    )
