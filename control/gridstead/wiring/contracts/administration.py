# SPDX-License-Identifier: Apache-2.0
"""Finds a set of contracts and changes it, for `gridstead contracts`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eth_utils.address import is_checksum_address, to_checksum_address

from gridstead.adapters.chain.contracts import Contracts, find_contracts
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import lazy_wallet
from gridstead.adapters.contracts.administrator import (
    AdministrationResult,
    Administrator,
    PlanChanges,
)
from gridstead.adapters.contracts.deployment_file import Record, read
from gridstead.adapters.contracts.inspection import Inspector, has_code
from gridstead.domain.contracts.deployment import GridState
from gridstead.domain.jobs.ids import parse_address
from gridstead.errors import ConfigError, InvalidInput
from gridstead.wiring.contracts.deployment import WalletFiles, check_chain

Report = Callable[[str], None]
"""Called with one line of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractsLocation:
    """The location of a set of contracts: the MetaScheduler's address, or the deployment file."""

    rpc_url: str
    chain_id: int | None = None
    contract: str | None = None
    deployment: Path | None = None
    first_block: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridContracts:
    """A set of contracts.

    Attributes:
        node: The node of the chain.
        contracts: The addresses of the contracts.
        first_block: The block in which the deployment of the set began. None if it is unknown.
        expected: The addresses in the deployment file, by name. Empty if no file was given.
    """

    node: Node
    contracts: Contracts
    first_block: int | None
    expected: Mapping[str, str] = field(default_factory=dict)

    def inspect(self, *, count_escrow: bool, report: Report) -> GridState:
        """Return the current state of the set."""
        inspector = Inspector(self.node, self.contracts, report=report)
        return inspector.inspect(first_block=self.first_block, count_escrow=count_escrow)

    def carry_out(
        self,
        plan: PlanChanges,
        wallet: WalletFiles,
        *,
        accounts: tuple[str, ...] = (),
        dry_run: bool,
        report: Report,
    ) -> AdministrationResult:
        """Send the transactions of a plan, signed by a wallet.

        Args:
            plan: A function that returns the changes that are still necessary.
            wallet: Keystore file and password file of the administrator.
            accounts: The accounts whose roles the plan reads.
            dry_run: Whether to plan the changes without sending transactions.
            report: Called with a line of text before and after each transaction.
        """
        inspector = Inspector(self.node, self.contracts, report=report)
        sender = lazy_wallet(*wallet)
        administrator = Administrator(
            self.node, inspector, sender, report=report, first_block=self.first_block
        )
        return administrator.carry_out(plan, accounts=accounts, dry_run=dry_run)


def find_set(location: ContractsLocation) -> GridContracts:
    """Return the set of contracts at a location.

    Raises:
        ConfigError: If the endpoint serves another chain, if the deployment file does not exist, or
            if the deployment is not complete.
        InvalidInput: If no set is specified, or if there is no contract at the address.
    """
    record = _read_record(location.deployment)
    chain_id, first_block = location.chain_id, location.first_block
    expected: Mapping[str, str] = {}
    if record is not None:
        chain_id = chain_id or record.chain_id
        first_block = record.first_block if first_block is None else first_block
        expected = record.contracts
    node = check_chain(location.rpc_url, chain_id)
    address = location.contract or expected.get("MetaScheduler")
    if address is None:
        raise _no_address(location.deployment)
    if not has_code(node, address):
        detail = f"{location.rpc_url} serves chain {int(node.ask('eth_chainId'), 16)}"
        hint = "Specify the address of a MetaScheduler, and the endpoint of its chain."
        raise InvalidInput(f"there is no contract at {address}", detail=detail, hint=hint)
    return GridContracts(
        node=node,
        contracts=find_contracts(node, address),
        expected=expected,
        first_block=first_block,
    )


def _read_record(deployment: Path | None) -> Record | None:
    if deployment is None:
        return None
    record = read(deployment)
    if record is None:
        raise ConfigError(f"cannot read the deployment {deployment}", detail="it does not exist")
    return record


def _no_address(deployment: Path | None) -> ConfigError | InvalidInput:
    """Return the error for a location without the address of a MetaScheduler."""
    if deployment is None:
        hint = "Specify --contract ADDRESS or --deployment FILE."
        return InvalidInput("no contracts are specified", hint=hint)
    return ConfigError(
        f"the deployment {deployment} is not finished",
        detail="it has no MetaScheduler",
        hint="Run `gridstead contracts deploy` again with this file.",
    )


def parse_recipient(text: str) -> str:
    """Return the address of an account that will receive a role or a contract, in lower case.

    Raises:
        InvalidInput: If the text is not an address, or if it is in mixed case and its checksum is
            wrong (EIP-55).
    """
    address = parse_address(text)
    given_address = text.strip()
    # The case of the digits a to f encodes the checksum. An address whose digits are all in lower
    # case or all in upper case has no checksum.
    is_lower_case = given_address == address
    is_upper_case = given_address == "0x" + given_address[2:].upper()
    has_checksum = not is_lower_case and not is_upper_case
    if has_checksum and not is_checksum_address(given_address):
        correct = to_checksum_address(address)
        hint = f"Check the address. With correct capitals it is {correct}."
        raise InvalidInput(
            f"invalid address {given_address}", detail="its checksum is wrong", hint=hint
        )
    return address
