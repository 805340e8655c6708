# SPDX-License-Identifier: Apache-2.0
"""The factory through which contracts are created, so that their addresses follow from their code.

The factory is a contract that only executes CREATE2. The address of a contract that it creates
follows from the address of the factory, a salt, and the creation code with its arguments. The
standard factory ("deterministic deployment proxy") has the same address on every chain that accepts
its transaction: the signature of that transaction is a constant instead of the result of a key, and
the transaction names no chain.
"""

from __future__ import annotations

import time

from eth_utils.crypto import keccak

from gridstead.adapters.chain.node import Node
from gridstead.adapters.transactions.account import send_raw_all
from gridstead.adapters.transactions.direct import POLL_S, DirectSender
from gridstead.domain.transactions.outbox import Reply, SendResult
from gridstead.errors import ChainUnavailable, ConfigError, InvalidInput, TransactionReverted

STANDARD_FACTORY = "0x4e59b44847b379578588920ca78fbf26c0b4956c"
FACTORY_CODE = (
    "0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe0"
    "3601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3"
)
FACTORY_CREATION = "0x604580600e600039806000f350fe" + FACTORY_CODE[2:]
# The transaction that creates the standard factory: nonce 0, 100,000 gas at 100 gwei, and a
# signature whose two numbers are 0x2222…22.
KEYLESS_TRANSACTION = (
    "0xf8a58085174876e800830186a08080b853"
    + FACTORY_CREATION[2:]
    + "1ba0"
    + "22" * 32
    + "a0"
    + "22" * 32
)
KEYLESS_SENDER = "0x3fab184622dc19b6109349b94811493bf2a45362"
KEYLESS_GAS_PRICE_WEI = 100 * 10**9
KEYLESS_COST_WEI = 100_000 * KEYLESS_GAS_PRICE_WEI
LAG_TIMEOUT_S = 60  # how long a node of the endpoint may lag behind the others
CREATION_TITLE = "creation of the deployer"
_CREATION_FAILED = "could not create the deployer"
_KEYLESS_HASH = "0x" + keccak(bytes.fromhex(KEYLESS_TRANSACTION[2:])).hex()
_NO_NONCE = 2**64


def hash_of_text(text: str) -> bytes:
    """Return the Keccak-256 hash of the text of a salt in UTF-8.

    Raises:
        InvalidInput: If the text has characters that UTF-8 cannot encode.
    """
    try:
        return bytes(keccak(text.encode()))
    except UnicodeEncodeError as err:
        raise InvalidInput(f"invalid salt {text[:80]!r}", detail="it is not UTF-8") from err


def address_of(factory: str, salt: bytes, creation: str) -> str:
    """Return the address of the contract that a factory creates, lower case (EIP-1014)."""
    parts = (bytes.fromhex(factory[2:]), salt, keccak(bytes.fromhex(creation[2:])))
    return "0x" + keccak(b"\xff" + b"".join(parts))[12:].hex()


def creation_data(salt: bytes, creation: str) -> str:
    """Return the data of the transaction that lets a factory create a contract."""
    return "0x" + salt.hex() + creation[2:]


def has_factory(node: Node, address: str) -> bool:
    """Return whether an address has the code of the factory."""
    return bool(node.ask("eth_getCode", address, "latest") == FACTORY_CODE)


def find_factory(node: Node, *, chosen: str | None, recorded: str | None) -> str | None:
    """Return the address of the factory to use; None if the chain has none.

    Args:
        node: A node of the chain.
        chosen: The address that the administrator chose. None for the standard address.
        recorded: The address in the deployment file. None if the file has none.

    Raises:
        ConfigError: If the chosen address does not have the code of the factory.
    """
    if chosen is not None and not has_factory(node, chosen):
        raise ConfigError(
            f"there is no deployer at {chosen}",
            detail=f"its code must be that of the deployer at {STANDARD_FACTORY}",
            hint="Specify another address, or omit --deployer.",
        )
    candidates = [chosen] if chosen else [recorded, STANDARD_FACTORY]
    return next((address for address in candidates if address and has_factory(node, address)), None)


def create_standard_factory(node: Node, sender: DirectSender) -> bool:
    """Create the standard factory with its keyless transaction, if the chain accepts it.

    The transaction is first sent without coins for its gas. A node that accepts such transactions
    then reports missing coins. Any other refusal costs nothing.

    Returns:
        Whether the factory exists now.

    Raises:
        ConfigError: If the sender cannot pay for the transaction.
        ChainUnavailable: If the node does not answer or is busy, or if the chain's fees are too
            high for the transaction.
    """
    _check_base_fee(node)
    (reply,) = send_raw_all(node, [KEYLESS_TRANSACTION])
    if reply.result is SendResult.CANNOT_PAY:
        balance = int(node.ask("eth_getBalance", KEYLESS_SENDER, "latest"), 16)
        sender.transfer(KEYLESS_SENDER, max(KEYLESS_COST_WEI - balance, 0))
        reply = _send_paid_transaction(node)
    if reply.result in {SendResult.RETRY_LATER, SendResult.CANNOT_PAY}:
        raise ChainUnavailable(_CREATION_FAILED, detail=f'"{reply.message}"')
    if reply.result is SendResult.ACCEPTED:
        # The nonces of the sender do not end this wait, because another account sends it.
        try:
            sender.wait([_KEYLESS_HASH], _NO_NONCE, name=CREATION_TITLE)
        except TransactionReverted:  # out of gas, on a chain with other gas costs
            return False
        return True
    return has_factory(node, STANDARD_FACTORY)


def _check_base_fee(node: Node) -> None:
    """Raise an error if the keyless transaction, whose gas price is fixed, cannot be mined now."""
    block = node.ask("eth_getBlockByNumber", "latest", False)
    base_fee = int((block or {}).get("baseFeePerGas", "0x0"), 16)
    if base_fee > KEYLESS_GAS_PRICE_WEI:
        detail = (
            f"its transaction pays {KEYLESS_GAS_PRICE_WEI} wei per gas, and the base fee is"
            f" {base_fee} wei"
        )
        hint = (
            "Run the command again when the fees are lower, or specify with --deployer a contract"
            f" whose code is {FACTORY_CODE}."
        )
        raise ChainUnavailable(_CREATION_FAILED, detail=detail, hint=hint)


def _send_paid_transaction(node: Node) -> Reply:
    """Send the keyless transaction until the node has the block with the coins for its gas."""
    deadline = time.monotonic() + LAG_TIMEOUT_S
    while True:
        (reply,) = send_raw_all(node, [KEYLESS_TRANSACTION])
        if reply.result is not SendResult.CANNOT_PAY or time.monotonic() > deadline:
            return reply
        time.sleep(POLL_S)


def create_own_factory(sender: DirectSender) -> str:
    """Create a factory from the sender's wallet, and return its address, lower case."""
    receipt = sender.transact("", FACTORY_CREATION, name=CREATION_TITLE)
    return str(receipt["contractAddress"]).lower()
