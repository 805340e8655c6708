# SPDX-License-Identifier: Apache-2.0
"""What of a deployment is there at one block: its contracts, and which of the intents in its file
came true.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridstead.adapters.chain.blueprint import BLUEPRINT, address_of, code_of_release
from gridstead.adapters.chain.deployment_file import Record
from gridstead.adapters.chain.node import Node, to_block
from gridstead.domain.job import Block
from gridstead.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is there at one block.

    Attributes:
        head: The block.
        known: Addresses of the contracts that are there, by name.
        used: How many nonces the admin has used up.
        free: The first nonce that nothing was sent with or meant for.
        gaps: Nonces before it with which nothing waits at the node, so that nothing after them is
            ever mined.
    """

    head: Block
    known: dict[str, str]
    used: int
    free: int
    gaps: tuple[int, ...]


def creation_of(contract: str) -> str:
    """Return the name of the step that creates a contract."""
    return f"creation of {contract}"


def survey(node: Node, record: Record) -> Survey:
    """Return what is there, and correct the record by it.

    Nonce and code are asked of the same block: a nonce that is used up without a contract at its
    address was used for something else, and a contract that is not there may still come as long as
    its nonce is not.
    """
    admin = record.origin.admin
    head = to_block(node.ask("eth_getBlockByNumber", "latest", False))
    pin = {"blockHash": head.hash, "requireCanonical": True}
    used = int(node.ask("eth_getTransactionCount", admin, pin), 16)
    _confirm(node, record, used)
    known: dict[str, str] = {}
    for name, address, is_sure in _candidates(record):
        code = node.ask("eth_getCode", address, pin)
        is_there = len(code) > len("0x") and name not in known
        if is_there and (is_sure or code == code_of_release(node, name, known, at_block=head)):
            known[name] = address
    record.contracts = dict(known)
    waiting = int(node.ask("eth_getTransactionCount", admin, "pending"), 16)
    meant = [one.nonce + 1 for one in record.intents if one.nonce >= used]
    free = max(used, waiting, *meant)
    gaps = tuple(one for one in range(max(used, waiting), free) if not _waits(node, record, one))
    return Survey(head=head, known=known, used=used, free=free, gaps=gaps)


def check_release(node: Node, found: Survey) -> None:
    """Refuse to build on contracts of another release.

    Raises:
        ConfigError: One has other code than this release would have put there.
    """
    pin = {"blockHash": found.head.hash, "requireCanonical": True}
    for name, address in found.known.items():
        expected = code_of_release(node, name, found.known, at_block=found.head)
        if expected not in {None, node.ask("eth_getCode", address, pin)}:
            hint = "Finish the set with the release that began it, or use another file to deploy a new one."
            raise ConfigError(f"{name} at {address} is another release's", hint=hint)


def _confirm(node: Node, record: Record, used: int) -> None:
    """Find out which intents became true; one that a contract refused is forgotten."""
    kept = []
    for intent in record.intents:
        if intent.block is None and intent.nonce < used:
            answers = node.batch([("eth_getTransactionReceipt", [one]) for one in intent.hashes])
            mined = [one for one in answers if isinstance(one, dict) and one.get("blockNumber")]
            if mined and int(mined[0]["status"], 16) != 1:
                continue
            kept.append(
                replace(intent, block=int(mined[0]["blockNumber"], 16)) if mined else intent
            )
        else:
            kept.append(intent)
    record.intents = kept


def _waits(node: Node, record: Record, nonce: int) -> bool:
    """Return whether the node has a transaction that was meant for a nonce."""
    hashes = [one for intent in record.intents if intent.nonce == nonce for one in intent.hashes]
    return any(
        isinstance(one, dict)
        for one in node.batch([("eth_getTransactionByHash", [one]) for one in hashes])
    )


def _candidates(record: Record) -> list[tuple[str, str, bool]]:
    """Return where contracts may be, and whether code there is surely ours, the surest first."""
    intents = [
        (name, one) for name in BLUEPRINT for one in record.intents if one.step == creation_of(name)
    ]
    recorded = [(name, address, True) for name, address in record.contracts.items()]
    meant = [
        (name, address_of(record.origin.admin, one.nonce), one.block is not None)
        for name, one in intents
    ]
    return [*recorded, *sorted(meant, key=lambda one: not one[2])]
