# SPDX-License-Identifier: Apache-2.0
"""Reads the log entries of a range of blocks.

An endpoint may have several nodes. If a node lags, it answers a request for a range as if the
missing blocks were empty. So each of the newest blocks is requested by its hash, because a node
without the block answers this request with an error. The older blocks are requested as ranges. The
last block of each range is requested too, and an error is raised if the node does not have it.

The nodes may also be on different forks. So the newest block must be the one that the caller
specifies, and each older block must be the parent of the next block.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from gridstead.adapters.chain.node import Node, Request, RpcError, unavailable
from gridstead.domain.jobs.job import Block
from gridstead.errors import ChainUnavailable

BLOCKS_PER_READ = 1000
PINNED_BLOCKS = 16  # the newest blocks, which are requested one by one

Log = dict[str, Any]


def read_logs(node: Node, log_filter: Mapping[str, Any], *, first: int, end: Block) -> list[Log]:
    """Return the log entries from a height to a block, both included, in chain order.

    Args:
        node: A node of the chain.
        log_filter: Addresses and topics, as parameters of eth_getLogs.
        first: The height of the first block.
        end: The last block. All entries are on its fork.

    Raises:
        ChainUnavailable: If a block is missing, the node does not answer, or the chain was
            reorganised meanwhile.
    """
    first_pinned = max(first, end.number - PINNED_BLOCKS + 1)
    blocks = _read_blocks(node, first_pinned, end)
    logs = _read_ranges(node, log_filter, first, blocks[0]) if first < first_pinned else []
    filters = [{**log_filter, "blockHash": block["hash"]} for block in blocks]
    requests_by_hash: list[Request] = [("eth_getLogs", [block_filter]) for block_filter in filters]
    for logs_of_block in _checked_answers(node, requests_by_hash):
        logs += logs_of_block
    return sorted(logs, key=_position)


def _position(log: Log) -> tuple[int, int]:
    return int(log["blockNumber"], 16), int(log["logIndex"], 16)


def _read_blocks(node: Node, first: int, end: Block) -> list[dict[str, Any]]:
    """Return the blocks from a height to a block, both included. Each is the parent of the next."""
    heights = range(first, end.number + 1)
    requests: list[Request] = [("eth_getBlockByNumber", [hex(height), False]) for height in heights]
    blocks = list(_checked_answers(node, requests))
    for parent, block in itertools.pairwise(blocks):
        if block["parentHash"] != parent["hash"]:
            raise _reorg_error()
    if blocks and blocks[-1]["hash"] != end.hash:
        raise _reorg_error()
    return blocks


def _read_ranges(
    node: Node, log_filter: Mapping[str, Any], first: int, next_block: Mapping[str, Any]
) -> list[Log]:
    """Return the log entries from a height to the parent of a block."""
    requests: list[Request] = []
    last = int(next_block["number"], 16) - 1
    for start in range(first, last + 1, BLOCKS_PER_READ):
        end = min(start + BLOCKS_PER_READ - 1, last)
        block_range = {"fromBlock": hex(start), "toBlock": hex(end)}
        requests.append(("eth_getBlockByNumber", [hex(end), False]))
        requests.append(("eth_getLogs", [{**log_filter, **block_range}]))
    # The answers alternate: the last block of a range, and the log entries of the range.
    answers = list(_checked_answers(node, requests))
    last_block, logs_of_ranges = answers[-2], answers[1::2]
    if last_block["hash"] != next_block["parentHash"]:
        raise _reorg_error()
    return list(itertools.chain.from_iterable(logs_of_ranges))


def _checked_answers(node: Node, requests: list[Request]) -> Iterator[Any]:
    """Yield the answers to requests.

    Raises:
        ChainUnavailable: If an answer is an error or empty.
    """
    for (method, parameters), answer in zip(requests, node.batch(requests), strict=True):
        if isinstance(answer, RpcError):
            raise unavailable(answer, method)
        if answer is None:
            detail = "the node does not have the block"
            raise ChainUnavailable(f"could not read block {int(parameters[0], 16)}", detail=detail)
        yield answer


def _reorg_error() -> ChainUnavailable:
    return ChainUnavailable(
        "could not read the chain's events", detail="the chain was reorganised meanwhile"
    )
