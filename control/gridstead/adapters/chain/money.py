# SPDX-License-Identifier: Apache-2.0
"""Credit, the grid's token, and Constants, the numbers that a grid's owner sets.

Units: amounts in wei. A function that is marked "ours only" exists only in Gridstead's contracts,
not in those of DeepSquare 1.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gridstead.adapters.chain.contract import Contract, Payload, ViewCall

_EIP712_NAME = "Credit"

_PERMIT_FIELDS = (
    ("owner", "address"),
    ("spender", "address"),
    ("value", "uint256"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
)
_DOMAIN_FIELDS = (
    ("name", "string"),
    ("version", "string"),
    ("chainId", "uint256"),
    ("verifyingContract", "address"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditPermit:
    """A signed allowance, valid until ``deadline``, Unix seconds.

    Source: ERC-2612.
    """

    deadline: int
    v: int
    r: bytes
    s: bytes


class Credit(Contract):
    """The grid's ERC-20 token."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("Credit", address)

    def balance_of(self, owner: str) -> ViewCall[int]:
        """Return a call for the credits of a wallet."""
        return self.view(int, "balanceOf", owner)

    def allowance(self, owner: str, spender: str) -> ViewCall[int]:
        """Return a call for the allowance that an owner has given a spender."""
        return self.view(int, "allowance", owner, spender)

    def nonce(self, owner: str) -> ViewCall[int]:
        """Return a call for the nonce of the owner's next permit. Ours only."""
        return self.view(int, "nonces", owner)

    def permit_document(
        self, chain_id: int, owner: str, spender: str, value: int, *, nonce: int, deadline: int
    ) -> dict[str, Any]:
        """Return the EIP-712 document that an owner signs for a permit."""
        return {
            "types": {
                "EIP712Domain": _to_eip712_fields(_DOMAIN_FIELDS),
                "Permit": _to_eip712_fields(_PERMIT_FIELDS),
            },
            "primaryType": "Permit",
            "domain": {
                "name": _EIP712_NAME,
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
        """Set the allowance of a spender for the sender's credits."""
        return self.call("approve", spender, amount)

    def transfer(self, to: str, amount: int) -> Payload:
        """Transfer credits of the sender to an address."""
        return self.call("transfer", to, amount)

    def mint(self, account: str, amount: int) -> Payload:
        """Mint credits for an account. Only the token's owner may send this."""
        return self.call("mint", account, amount)


class Constants(Contract):
    """The numbers that the owner of a grid may change."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("Constants", address)

    def minimum_amount(self) -> ViewCall[int]:
        """Return a call for the minimum escrow of a job."""
        return self.view(int, "minimumAmount")

    def slack_minutes(self) -> ViewCall[int]:
        """Return a call for the minutes by which a bill may exceed the time since the start.

        Our contracts ignore this constant.
        """
        return self.view(int, "billDurationDeltaMinute")

    def fee_percent(self) -> ViewCall[int]:
        """Return a call for the grid's share of a bill, percent."""
        return self.view(int, "deepsquareCut")

    def claim_timeout_blocks(self) -> ViewCall[int]:
        """Return a call for the claim timeout, blocks."""
        return self.view(int, "claimJobTimeout")

    def start_timeout_s(self) -> ViewCall[int]:
        """Return a call for the seconds that a claimed job may wait for its start. Ours only."""
        return self.view(int, "startTimeout")

    def settle_grace_s(self) -> ViewCall[int]:
        """Return a call for the seconds within which a provider must settle a job.

        The seconds begin at the end of the paid time or at the cancellation of the job. Ours only.
        """
        return self.view(int, "settleGrace")


def _to_eip712_fields(fields: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "type": field_type} for name, field_type in fields]
