# SPDX-License-Identifier: Apache-2.0
"""Credit, the token of account, and Constants, the numbers that a grid's owner sets. Amounts are
wei.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gridstead.adapters.chain.contract import Contract, Payload, ViewCall

NAME = "Credit"

_PERMIT = (
    ("owner", "address"),
    ("spender", "address"),
    ("value", "uint256"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
)
_DOMAIN = (
    ("name", "string"),
    ("version", "string"),
    ("chainId", "uint256"),
    ("verifyingContract", "address"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditPermit:
    """An owner's signature that lets another take credits until a time, Unix seconds. Source:
    ERC-2612.
    """

    deadline: int
    v: int
    r: bytes
    s: bytes


class Credit(Contract):
    """The token: ERC-20."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("Credit", address)

    def balance_of(self, owner: str) -> ViewCall[int]:
        """Ask for the credits of a wallet."""
        return self.view(int, "balanceOf", owner)

    def allowance(self, owner: str, spender: str) -> ViewCall[int]:
        """Ask how many of a wallet's credits another may take."""
        return self.view(int, "allowance", owner, spender)

    def nonce(self, owner: str) -> ViewCall[int]:
        """Ask how many permits of a wallet were used; ours only."""
        return self.view(int, "nonces", owner)

    def permit_document(
        self, chain_id: int, owner: str, spender: str, value: int, *, nonce: int, deadline: int
    ) -> dict[str, Any]:
        """Return what an owner signs for a permit, as EIP-712 has it."""
        return {
            "types": {"EIP712Domain": _typed(_DOMAIN), "Permit": _typed(_PERMIT)},
            "primaryType": "Permit",
            "domain": {
                "name": NAME,
                "version": "1",
                "chainId": chain_id,
                "verifyingContract": self.address,
            },
            "message": {
                "owner": owner,
                "spender": spender,
                "value": value,
                "nonce": nonce,
                "deadline": deadline,
            },
        }

    def approve(self, spender: str, amount: int) -> Payload:
        """Let another take so many of the sender's credits, in place of what it could before."""
        return self.call("approve", spender, amount)

    def transfer(self, to: str, amount: int) -> Payload:
        """Give a wallet some of the sender's credits."""
        return self.call("transfer", to, amount)

    def mint(self, account: str, amount: int) -> Payload:
        """Make credits from nothing; for the token's owner."""
        return self.call("mint", account, amount)


class Constants(Contract):
    """The numbers that the owner may change."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("Constants", address)

    def minimum_amount(self) -> ViewCall[int]:
        """Ask for the least lock of a job."""
        return self.view(int, "minimumAmount")

    def slack_minutes(self) -> ViewCall[int]:
        """Ask by how much a bill may exceed the time since the start; without meaning on our
        contracts.
        """
        return self.view(int, "billDurationDeltaMinute")

    def fee_percent(self) -> ViewCall[int]:
        """Ask for the grid's share of a bill."""
        return self.view(int, "deepsquareCut")

    def claim_timeout_blocks(self) -> ViewCall[int]:
        """Ask how many blocks a match may wait for its claim."""
        return self.view(int, "claimJobTimeout")

    def start_timeout_s(self) -> ViewCall[int]:
        """Ask how many seconds a claimed job may wait for its start; ours only."""
        return self.view(int, "startTimeout")

    def settle_grace_s(self) -> ViewCall[int]:
        """Ask how many seconds beyond its paid time a job may run unsettled; ours only."""
        return self.view(int, "settleGrace")


def _typed(fields: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in fields]
