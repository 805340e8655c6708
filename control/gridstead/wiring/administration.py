# SPDX-License-Identifier: Apache-2.0
"""What stands behind `gridstead contracts`: a set of contracts, found, and who administers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eth_utils.address import is_checksum_address, to_checksum_address

from gridstead.adapters.chain.administrator import AdministrationResult, Administrator, Plan
from gridstead.adapters.chain.contracts import Contracts, find_contracts
from gridstead.adapters.chain.deployment_file import read
from gridstead.adapters.chain.inspection import Inspector, has_code
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import lazy_wallet
from gridstead.domain.deployment import GridState
from gridstead.domain.ids import parse_address
from gridstead.errors import ConfigError, InvalidInput
from gridstead.wiring.deployment import WalletFiles, check_chain

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractsLocation:
    """Where a set of contracts is said to be: by its MetaScheduler's address, or by its deployment
    file.
    """

    rpc_url: str
    chain_id: int | None = None
    contract: str | None = None
    deployment: Path | None = None
    first_block: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridContracts:
    """A set of contracts that was found.

    Attributes:
        node: The chain.
        contracts: The set.
        expected: Addresses by name, as the deployment file has them; empty without one.
        first_block: Where it begins, if somebody said so.
    """

    node: Node
    contracts: Contracts
    first_block: int | None
    expected: Mapping[str, str] = field(default_factory=dict)

    def inspect(self, *, count_escrow: bool, tell: Tell) -> GridState:
        """Return the set as it is now."""
        inspector = Inspector(self.node, self.contracts, tell=tell)
        return inspector.inspect(first_block=self.first_block, count_escrow=count_escrow)

    def carry_out(
        self,
        plan: Plan,
        wallet: WalletFiles,
        *,
        accounts: tuple[str, ...] = (),
        dry_run: bool,
        tell: Tell,
    ) -> AdministrationResult:
        """Send what a plan says is missing, as a wallet."""
        inspector = Inspector(self.node, self.contracts, tell=tell)
        sender = lazy_wallet(*wallet)
        administrator = Administrator(
            self.node, inspector, sender, tell=tell, first_block=self.first_block
        )
        return administrator.carry_out(plan, accounts=accounts, dry_run=dry_run)


def find_set(place: ContractsLocation) -> GridContracts:
    """Return the set of contracts at a place.

    Raises:
        ConfigError: The endpoint serves another chain, or the file is of another one or its
            deployment not finished.
        InvalidInput: No set is named, or there is none at the address.
    """
    record = read(place.deployment) if place.deployment else None
    if place.deployment is not None and record is None:
        raise ConfigError(
            f"cannot read the deployment {place.deployment}", detail="it does not exist"
        )
    chain_id = place.chain_id or (record.origin.chain_id if record else None)
    node = check_chain(place.rpc_url, chain_id)
    expected = record.contracts if record else {}
    address = place.contract or expected.get("MetaScheduler")
    if address is None:
        if place.deployment is None:
            raise InvalidInput(
                "no contracts are named", hint="Give --contract ADDRESS or --deployment FILE."
            )
        hint = "Run `gridstead contracts deploy` again with this file."
        raise ConfigError(
            f"the deployment {place.deployment} is not finished",
            detail="no MetaScheduler",
            hint=hint,
        )
    if not has_code(node, address):
        detail = f"{place.rpc_url} serves chain {int(node.ask('eth_chainId'), 16)}"
        hint = "Give the address of a MetaScheduler, and the endpoint of its chain."
        raise InvalidInput(f"there is no contract at {address}", detail=detail, hint=hint)
    first_block = (
        place.first_block
        if place.first_block is not None
        else (record.first_block if record else None)
    )
    return GridContracts(
        node=node,
        contracts=find_contracts(node, address),
        expected=expected,
        first_block=first_block,
    )


def parse_recipient(text: str) -> str:
    """Return an address that will be given power, in lower case; one with capitals must have them
    right.

    Raises:
        InvalidInput: It is no address, or its capitals say that it was mistyped (EIP-55).
    """
    address, given = parse_address(text), text.strip()
    if given not in {address, "0x" + given[2:].upper()} and not is_checksum_address(given):
        hint = f"Its capitals do not fit its digits; if the digits are right it is {to_checksum_address(address)}."
        raise InvalidInput(f"invalid address {given}", detail="it was mistyped", hint=hint)
    return address
