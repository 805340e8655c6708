# SPDX-License-Identifier: Apache-2.0
"""What a set of contracts is made of: constructors in their order, roles, and the code that
results.
"""

from __future__ import annotations

from collections.abc import Mapping

from eth_utils.crypto import keccak

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.domain.administration import Change
from gridstead.domain.deployment import NOBODY, ROLE_NAMES, SEALABLE, SEALED, Role
from gridstead.domain.job import Block

SUPPLY = "supply"
RENUNCIATION = "renounceRole"
SOMEBODY = (
    "0x" + "11" * 20
)  # who runs a constructor to see its code; nobody would not do: Credit mints to its creator

# What is created in which order; an argument is the name of an earlier contract, or the supply.
BLUEPRINT: dict[str, tuple[str, ...]] = {
    "Credit": (SUPPLY,),
    "Constants": (),
    "ProviderManager": (),
    "JobRepository": (),
    "ProviderJobQueues": ("JobRepository",),
    "MetaScheduler": (
        "Credit",
        "Constants",
        "ProviderManager",
        "ProviderJobQueues",
        "JobRepository",
    ),
}


def arguments_of(
    contract: str, addresses: Mapping[str, str], *, supply: int = 0
) -> list[str | int]:
    """Return the constructor's arguments; a contract without an address is nobody."""
    return [supply if one == SUPPLY else addresses.get(one, NOBODY) for one in BLUEPRINT[contract]]


def wiring(addresses: Mapping[str, str], *, operator: str, admin: str) -> tuple[Change, ...]:
    """Return what a set needs beyond its contracts, in order; last, what cannot be undone.

    Args:
        addresses: Of all contracts, by name.
        operator: The wallet of the meta-scheduler service.
        admin: Who created the contracts.
    """
    grid = addresses["MetaScheduler"]
    members = [(seat, grid) for seat in ROLE_NAMES if seat[1] is Role.CONTRACT]
    members += [(seat, operator) for seat in ROLE_NAMES if seat[1] is Role.MATCHER]
    grants = tuple(
        Change(
            contract=contract,
            function="grantRole",
            arguments=(ROLE_NAMES[contract, role], account),
            title=f"{account} is {role.value} of {contract}",
        )
        for (contract, role), account in members
    )
    title = f"ProviderJobQueues belongs to {grid}"
    queues = Change(
        contract="ProviderJobQueues", function="transferOwnership", arguments=(grid,), title=title
    )
    role = ROLE_NAMES[SEALABLE, Role.ADMIN]
    seal = Change(contract=SEALABLE, function=RENUNCIATION, arguments=(role, admin), title=SEALED)
    return (queues, *grants, seal)


def code_of_release(
    node: Node, contract: str, addresses: Mapping[str, str], *, at_block: Block
) -> str | None:
    """Return the code that this release would put on the chain, None if the node will not compute
    it.

    The node runs the constructor without keeping anything, so what it fixes in the code is in it:
    other contracts' addresses, and nothing that depends on the supply or the sender.
    """
    creation = {
        "from": SOMEBODY,
        "data": artifact(contract).creation(*arguments_of(contract, addresses)),
    }
    pin = {"blockHash": at_block.hash, "requireCanonical": True}
    (answer,) = node.batch([("eth_call", [creation, pin])])
    return None if isinstance(answer, RpcError) else str(answer)


def address_of(sender: str, nonce: int) -> str:
    """Return the address of the contract that a sender's transaction of this nonce creates, lower
    case.

    Source: the Ethereum yellow paper, part 7: the end of the hash of both, in the encoding of lists
        (RLP).
    """
    digits = nonce.to_bytes((nonce.bit_length() + 7) // 8)
    place = digits if 0 < nonce < 0x80 else bytes([0x80 + len(digits)]) + digits
    parts = b"\x94" + bytes.fromhex(sender[2:]) + place
    return "0x" + keccak(bytes([0xC0 + len(parts)]) + parts)[12:].hex()
