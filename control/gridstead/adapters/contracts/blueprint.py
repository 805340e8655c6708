# SPDX-License-Identifier: Apache-2.0
"""How a set of contracts is built: its constructors, roles and owners, and the expected code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eth_utils.crypto import keccak

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.domain.contracts.administration import Change
from gridstead.domain.contracts.deployment import NOBODY, ROLE_NAMES, SEALABLE, SEALED, Role
from gridstead.domain.jobs.job import Block

SUPPLY = "supply"
RENUNCIATION = "renounceRole"
# The sender of a simulated constructor call. It is not the zero address, because Credit mints to
# its creator, and a mint to the zero address fails.
ANY_SENDER = "0x" + "11" * 20

# The contracts in the order of their creation, with their constructor arguments. An argument is the
# name of an earlier contract, or the supply.
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
    """Return the arguments of a constructor. A missing address becomes the zero address."""
    values: dict[str, str | int] = {**addresses, SUPPLY: supply}
    return [values.get(name, NOBODY) for name in BLUEPRINT[contract]]


def wiring(addresses: Mapping[str, str], *, operator: str, admin: str) -> tuple[Change, ...]:
    """Return the changes that set up new contracts, in order. The last change is irreversible.

    Args:
        addresses: The addresses of all contracts, by name.
        operator: The wallet of the meta-scheduler service.
        admin: The wallet that created the contracts.
    """
    meta_scheduler = addresses["MetaScheduler"]
    transfer = Change(
        contract="ProviderJobQueues",
        function="transferOwnership",
        arguments=(meta_scheduler,),
        title=f"ProviderJobQueues belongs to {meta_scheduler}",
    )
    grants = [
        *_grant_everywhere(Role.CONTRACT, meta_scheduler),
        *_grant_everywhere(Role.MATCHER, operator),
    ]
    role = ROLE_NAMES[SEALABLE, Role.ADMIN]
    seal = Change(contract=SEALABLE, function=RENUNCIATION, arguments=(role, admin), title=SEALED)
    return (transfer, *grants, seal)


def _grant_everywhere(role: Role, account: str) -> Iterator[Change]:
    """Yield the grants of a role in each contract that has it."""
    for contract, role_of_contract in ROLE_NAMES:
        if role_of_contract is role:
            yield _grant(contract, role, account)


def _grant(contract: str, role: Role, account: str) -> Change:
    return Change(
        contract=contract,
        function="grantRole",
        arguments=(ROLE_NAMES[contract, role], account),
        title=f"{account} is {role.value} of {contract}",
    )


def code_of_release(
    node: Node,
    contract: str,
    addresses: Mapping[str, str],
    *,
    at_block: Block,
    earlier_release: str = "",
) -> str | None:
    """Return the code that a release would deploy; None if the node refuses to compute it.

    The release is this release, or an earlier one such as ``2.0.0``. The node simulates the
    constructor, because the code contains immutables that the constructor sets: the addresses of
    other contracts. The code does not depend on the supply or the sender.
    """
    creation = {
        "from": ANY_SENDER,
        "data": artifact(contract, earlier_release).creation(*arguments_of(contract, addresses)),
    }
    pin = {"blockHash": at_block.hash, "requireCanonical": True}
    (answer,) = node.batch([("eth_call", [creation, pin])])
    return None if isinstance(answer, RpcError) else str(answer)


def address_of(sender: str, nonce: int) -> str:
    """Return the address of the contract that a sender creates with this nonce, lower case.

    Source: Ethereum yellow paper, part 7: the last 20 bytes of keccak(RLP([sender, nonce])).
    """
    # In RLP, 0x94 starts a string of 20 bytes, and 0xC0 plus the length starts a short list.
    rlp_nonce = _rlp_of_nonce(nonce)
    rlp_items = b"\x94" + bytes.fromhex(sender[2:]) + rlp_nonce
    rlp_list = bytes([0xC0 + len(rlp_items)]) + rlp_items
    return "0x" + keccak(rlp_list)[12:].hex()


def _rlp_of_nonce(nonce: int) -> bytes:
    # A number from 1 to 127 is encoded as this byte. Any other number is encoded as 0x80 plus its
    # length, and then its bytes. The number 0 has no bytes.
    digits = nonce.to_bytes((nonce.bit_length() + 7) // 8)
    if 0 < nonce < 0x80:
        return digits
    return bytes([0x80 + len(digits)]) + digits
