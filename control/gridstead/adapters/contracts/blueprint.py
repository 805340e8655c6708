# SPDX-License-Identifier: Apache-2.0
"""How a set of contracts is created: the order, the constructor arguments, and the code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eth_utils.crypto import keccak

from gridstead.adapters.chain.abi import artifact, read_document
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.contracts.factory import address_of, hash_of_text
from gridstead.domain.contracts.deployment import NOBODY
from gridstead.domain.jobs.job import Block

# Any account except the zero address, to which Credit does not mint.
ANY_ACCOUNT = "0x" + "11" * 20
# The contracts in the order of their creation: the constructors need the addresses of earlier ones.
ORDER = (
    "Credit",
    "Constants",
    "ProviderManager",
    "JobRepository",
    "ProviderJobQueues",
    "MetaScheduler",
)
# The contract whose address a parameter of a constructor has.
_CONTRACT_OF = {
    "_credit": "Credit",
    "_constants": "Constants",
    "_providerManager": "ProviderManager",
    "_providerJobQueues": "ProviderJobQueues",
    "_jobs": "JobRepository",
}
_ACCOUNTS = ("_owner", "_admin", "_receiver")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedContract:
    """A contract of a set, with its address, creation code and constructor arguments."""

    name: str
    address: str
    code: str
    arguments: tuple[str | int, ...]


def salt_of_set(text: str, *, admin: str, supply: int) -> bytes:
    """Return the salt with which a factory creates the contracts of a set, 32 bytes.

    Sets that differ in their code, admin, supply or text have no contract in common. A common
    JobRepository would accept only MetaScheduler of the older set.

    Raises:
        InvalidInput: If the text has characters that UTF-8 cannot encode.
    """
    codes = "".join(artifact(name).bytecode.removeprefix("0x") for name in ORDER)
    parts = (
        hash_of_text(text),
        bytes.fromhex(admin[2:]),
        supply.to_bytes(32, "big"),
        keccak(bytes.fromhex(codes)),
    )
    return bytes(keccak(b"".join(parts)))


def plan_set(factory: str, salt: bytes, *, admin: str, supply: int) -> tuple[PlannedContract, ...]:
    """Return the contracts of a set of this release, in the order of their creation.

    Args:
        factory: The address of the factory that creates the contracts.
        salt: The result of ``salt_of_set``.
        admin: The account that owns and administers the contracts, and receives the supply.
        supply: The credits that Credit mints, wei.
    """
    addresses: dict[str, str] = {}
    contracts = []
    for name in ORDER:
        arguments = _arguments_of(name, addresses, admin=admin, supply=supply)
        code = artifact(name).creation(*arguments)
        addresses[name] = address_of(factory, salt, code)
        contract = PlannedContract(
            name=name, address=addresses[name], code=code, arguments=tuple(arguments)
        )
        contracts.append(contract)
    return tuple(contracts)


def _arguments_of(
    contract: str, addresses: Mapping[str, str], *, admin: str, supply: int = 0, release: str = ""
) -> list[str | int]:
    """Return the arguments of a constructor. A missing address becomes the zero address.

    ``release`` is that of ``read_document``: the parameters of each release are different.
    """
    arguments: list[str | int] = []
    for parameter in _parameters(contract, release):
        if parameter in _ACCOUNTS:
            arguments.append(admin)
        elif parameter in _CONTRACT_OF:
            arguments.append(addresses.get(_CONTRACT_OF[parameter], NOBODY))
        else:
            assert parameter == "_amountWei", parameter
            arguments.append(supply)
    return arguments


def _parameters(contract: str, release: str) -> list[str]:
    """Return the names of the parameters of a constructor."""
    for entry in read_document(contract, release)["abi"]:
        if entry["type"] == "constructor":
            return [parameter["name"] for parameter in entry["inputs"]]
    return []


def code_of_release(
    node: Node,
    contract: str,
    address: str,
    addresses: Mapping[str, str],
    *,
    at_block: Block,
    earlier_release: str = "",
) -> str | None:
    """Return the code of a release for a contract; None if the node refuses to compute it.

    The node runs the constructor at the contract's address (a state override of ``eth_call``),
    because the code contains immutables that the constructor sets: the addresses of other
    contracts, and in Credit the domain of permits, with the chain and the address of Credit. The
    code does not depend on the supply, the sender or the administrator.

    Args:
        node: The node of the chain.
        contract: The name of the contract.
        address: The address of the contract.
        addresses: The addresses of the other contracts, by name.
        at_block: The block whose state the node uses.
        earlier_release: An earlier release such as ``2.0.0``; empty for this release.
    """
    arguments = _arguments_of(contract, addresses, admin=ANY_ACCOUNT, release=earlier_release)
    creation = artifact(contract, earlier_release).creation(*arguments)
    call = {"from": ANY_ACCOUNT, "to": address}
    pin = {"blockHash": at_block.hash, "requireCanonical": True}
    (answer,) = node.batch([("eth_call", [call, pin, {address: {"code": creation}}])])
    return None if isinstance(answer, RpcError) else str(answer)
