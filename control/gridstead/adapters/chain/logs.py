# SPDX-License-Identifier: Apache-2.0
"""Log entries of the chain by range.

Behind one endpoint there may be several servers, and one that lags answers a range as if the blocks that it lacks were
empty. So the newest blocks of a range are asked for one by one, by their hashes, which only a server that has them can
answer, and the older ones in one request with the block at their end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from gridstead.adapters.chain.node import Node, Request, RpcError, unavailable
from gridstead.errors import ChainUnavailable

BLOCKS_PER_READ = 1000
PINNED_BLOCKS = 16

Log = dict[str, Any]


def read_logs(node: Node, wanted: Mapping[str, Any], *, first: int, last: int) -> list[Log]:
    """Return the log entries in blocks first to last, both included, in chain order.

    Args:
        node: The chain.
        wanted: Addresses and topics, as eth_getLogs takes them.
        first: Height.
        last: Height.

    Raises:
        ChainUnavailable: A block is missing, there was no answer, or the chain was reorganised meanwhile.
    """
    pinned = max(first, last - PINNED_BLOCKS + 1)
    logs = _read_ranges(node, wanted, first, pinned - 1) + _read_pinned(node, wanted, pinned, last)
    return sorted(logs, key=lambda log: (int(log["blockNumber"], 16), int(log["logIndex"], 16)))


def _read_ranges(node: Node, wanted: Mapping[str, Any], first: int, last: int) -> list[Log]:
    requests: list[Request] = []
    for start in range(first, last + 1, BLOCKS_PER_READ):
        end = min(start + BLOCKS_PER_READ - 1, last)
        requests.append(("eth_getBlockByNumber", [hex(end), False]))
        requests.append(("eth_getLogs", [{**wanted, "fromBlock": hex(start), "toBlock": hex(end)}]))
    answers = list(_good(node, requests))
    return [log for page in answers[1::2] for log in page]


def _read_pinned(node: Node, wanted: Mapping[str, Any], first: int, last: int) -> list[Log]:
    heights: list[Request] = [("eth_getBlockByNumber", [hex(n), False]) for n in range(first, last + 1)]
    blocks = list(_good(node, heights))
    if any(block["parentHash"] != parent["hash"] for parent, block in itertools.pairwise(blocks)):
        raise ChainUnavailable("could not read the chain's events", detail="it was reorganised meanwhile")
    by_hash: list[Request] = [("eth_getLogs", [{**wanted, "blockHash": block["hash"]}]) for block in blocks]
    return [log for page in _good(node, by_hash) for log in page]


def _good(node: Node, requests: list[Request]) -> Iterator[Any]:
    for (method, parameters), answer in zip(requests, node.batch(requests), strict=True):
        if isinstance(answer, RpcError):
            raise unavailable(answer, method)
        if answer is None:
            detail = "the node that answers does not have it"
            raise ChainUnavailable(f"could not read block {int(parameters[0], 16)}", detail=detail)
        yield answer
