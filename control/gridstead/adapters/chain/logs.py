# SPDX-License-Identifier: Apache-2.0
"""Log entries of the chain by range.

Behind one endpoint there may be several servers, and one that lags answers a range as if the blocks
that it lacks were empty. So the newest blocks of a range are asked for one by one, by their hashes,
which only a server that has them can answer, and the older ones in one request with the block at
their end. Those servers may also stand on different forks of one height: the newest block must be
the one that the reader means, and each of the others, down to the one at the end of the older ones,
must be below it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from gridstead.adapters.chain.node import Node, Request, RpcError, unavailable
from gridstead.domain.job import Block
from gridstead.errors import ChainUnavailable

BLOCKS_PER_READ = 1000
PINNED_BLOCKS = 16

Log = dict[str, Any]


def read_logs(node: Node, wanted: Mapping[str, Any], *, first: int, end: Block) -> list[Log]:
    """Return the log entries from a height to a block, both included, in chain order, of that
    block's history.

    Args:
        node: The chain.
        wanted: Addresses and topics, as eth_getLogs takes them.
        first: Height.
        end: The newest block.

    Raises:
        ChainUnavailable: A block is missing, there was no answer, or the chain was reorganised
            meanwhile.
    """
    pinned = max(first, end.number - PINNED_BLOCKS + 1)
    blocks = _read_blocks(node, pinned, end)
    older = _read_ranges(node, wanted, first, blocks[0]) if first < pinned else []
    by_hash: list[Request] = [
        ("eth_getLogs", [{**wanted, "blockHash": block["hash"]}]) for block in blocks
    ]
    logs = older + [log for page in _good(node, by_hash) for log in page]
    return sorted(logs, key=lambda log: (int(log["blockNumber"], 16), int(log["logIndex"], 16)))


def _read_blocks(node: Node, first: int, end: Block) -> list[dict[str, Any]]:
    """Return the blocks from a height to a block, each of which follows from the one before."""
    heights: list[Request] = [
        ("eth_getBlockByNumber", [hex(n), False]) for n in range(first, end.number + 1)
    ]
    blocks = list(_good(node, heights))
    is_broken = any(
        block["parentHash"] != parent["hash"] for parent, block in itertools.pairwise(blocks)
    )
    if is_broken or (blocks and blocks[-1]["hash"] != end.hash):
        raise _reorganised()
    return blocks


def _read_ranges(
    node: Node, wanted: Mapping[str, Any], first: int, above: Mapping[str, Any]
) -> list[Log]:
    """Return the log entries from a height to the parent of a block."""
    requests: list[Request] = []
    last = int(above["number"], 16) - 1
    for start in range(first, last + 1, BLOCKS_PER_READ):
        end = min(start + BLOCKS_PER_READ - 1, last)
        requests.append(("eth_getBlockByNumber", [hex(end), False]))
        requests.append(("eth_getLogs", [{**wanted, "fromBlock": hex(start), "toBlock": hex(end)}]))
    answers = list(_good(node, requests))
    if answers[-2]["hash"] != above["parentHash"]:
        raise _reorganised()
    return [log for page in answers[1::2] for log in page]


def _good(node: Node, requests: list[Request]) -> Iterator[Any]:
    for (method, parameters), answer in zip(requests, node.batch(requests), strict=True):
        if isinstance(answer, RpcError):
            raise unavailable(answer, method)
        if answer is None:
            detail = "the node that answers does not have it"
            raise ChainUnavailable(f"could not read block {int(parameters[0], 16)}", detail=detail)
        yield answer


def _reorganised() -> ChainUnavailable:
    return ChainUnavailable(
        "could not read the chain's events", detail="it was reorganised meanwhile"
    )
