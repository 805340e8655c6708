# SPDX-License-Identifier: Apache-2.0
"""Finds which contracts and transactions of a deployment file are on the chain at one block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gridstead.adapters.chain.node import Node, Request, to_block
from gridstead.adapters.contracts.blueprint import BLUEPRINT, address_of, code_of_release
from gridstead.adapters.contracts.deployment_file import Intent, Record
from gridstead.domain.jobs.job import Block
from gridstead.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The state of a deployment at one block.

    Attributes:
        head: The block at which the state was read.
        known: The addresses of the contracts that exist, by name.
        used_nonce_count: How many nonces of the admin are used.
        next_free_nonce: The lowest nonce above all sent and all recorded transactions.
        gaps: The unused nonces below ``next_free_nonce`` for which the node has no pending
            transaction. Gaps block the transactions with higher nonces.
    """

    head: Block
    known: dict[str, str]
    used_nonce_count: int
    next_free_nonce: int
    gaps: tuple[int, ...]


def creation_title(contract: str) -> str:
    """Return the title of the step that creates a contract."""
    return f"creation of {contract}"


def survey(node: Node, record: Record) -> Survey:
    """Return the state of a deployment, and correct the record.

    The admin's nonces and the contracts' code are read at the same block. The address of a contract
    results from the nonce of the transaction that creates it. If that nonce is used but the address
    has no code, another transaction has used the nonce. If the nonce is not used, the contract may
    still be created.
    """
    admin = record.origin.admin
    head = to_block(node.ask("eth_getBlockByNumber", "latest", False))
    pin = {"blockHash": head.hash, "requireCanonical": True}
    used_nonce_count = int(node.ask("eth_getTransactionCount", admin, pin), 16)
    _confirm(node, record, used_nonce_count)
    known: dict[str, str] = {}
    for name, address, is_certain in _candidates(record):
        code = node.ask("eth_getCode", address, pin)
        if name in known or len(code) <= len("0x"):
            continue
        if is_certain or code == code_of_release(node, name, known, at_block=head):
            known[name] = address
    record.contracts = dict(known)
    pending_count = int(node.ask("eth_getTransactionCount", admin, "pending"), 16)
    recorded_nonces = [
        intent.nonce for intent in record.intents if intent.nonce >= used_nonce_count
    ]
    next_nonces = [nonce + 1 for nonce in recorded_nonces]
    next_free_nonce = max([used_nonce_count, pending_count, *next_nonces])
    # The node counts only consecutive pending transactions, so no gap is below this count.
    open_nonces = range(max(used_nonce_count, pending_count), next_free_nonce)
    gaps = tuple(nonce for nonce in open_nonces if not _is_pending(node, record, nonce))
    return Survey(
        head=head,
        known=known,
        used_nonce_count=used_nonce_count,
        next_free_nonce=next_free_nonce,
        gaps=gaps,
    )


def check_release(node: Node, state: Survey) -> None:
    """Check that the existing contracts are those of this release.

    Raises:
        ConfigError: If the code of a contract differs from this release's.
    """
    pin = {"blockHash": state.head.hash, "requireCanonical": True}
    for name, address in state.known.items():
        expected_code = code_of_release(node, name, state.known, at_block=state.head)
        if expected_code is not None and node.ask("eth_getCode", address, pin) != expected_code:
            hint = (
                "Complete the set with the release that started it,"
                " or use another file to deploy a new set."
            )
            raise ConfigError(f"{name} at {address} is of another release", hint=hint)


def _confirm(node: Node, record: Record, used_nonce_count: int) -> None:
    """Record the blocks of mined intents; remove the intents that a contract refused."""
    kept_intents = []
    for intent in record.intents:
        if intent.block is not None or intent.nonce >= used_nonce_count:
            kept_intents.append(intent)
            continue
        receipt = _receipt(node, intent)
        if receipt is None:
            kept_intents.append(intent)
        elif int(receipt["status"], 16) == 1:
            kept_intents.append(replace(intent, block=int(receipt["blockNumber"], 16)))
    record.intents = kept_intents


def _receipt(node: Node, intent: Intent) -> dict[str, Any] | None:
    requests = [("eth_getTransactionReceipt", [tx_hash]) for tx_hash in intent.hashes]
    for answer in node.batch(requests):
        if isinstance(answer, dict) and answer.get("blockNumber"):
            return answer
    return None


def _is_pending(node: Node, record: Record, nonce: int) -> bool:
    """Return whether the node has a transaction that was recorded for a nonce."""
    requests: list[Request] = []
    for intent in record.intents:
        if intent.nonce == nonce:
            requests += [("eth_getTransactionByHash", [tx_hash]) for tx_hash in intent.hashes]
    return any(isinstance(answer, dict) for answer in node.batch(requests))


def _candidates(record: Record) -> list[tuple[str, str, bool]]:
    """Return the possible addresses of contracts as (name, address, is_certain).

    An address is certain if this deployment is known to have created the contract at the address.
    The certain addresses are first.
    """
    certain_candidates = [(name, address, True) for name, address in record.contracts.items()]
    uncertain_candidates = []
    for name in BLUEPRINT:
        for intent in record.intents:
            if intent.step != creation_title(name):
                continue
            address = address_of(record.origin.admin, intent.nonce)
            if intent.block is None:
                uncertain_candidates.append((name, address, False))
            else:
                certain_candidates.append((name, address, True))
    return [*certain_candidates, *uncertain_candidates]
