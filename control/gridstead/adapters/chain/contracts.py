# SPDX-License-Identifier: Apache-2.0
"""Where the grid's contracts are and which generation they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gridstead.adapters.chain.abi import artifact, text
from gridstead.adapters.chain.node import Node, Read, RpcError, to_block
from gridstead.errors import ChainUnavailable, ConfigError

COMPATIBLE_VERSION = "2"


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract at an address."""

    name: str
    address: str

    def read(self, function: str, *arguments: Any) -> Read:  # noqa: ANN401
        """Return the read of a view."""
        return Read(to=self.address, data=artifact(self.name).functions[function].encode(*arguments))

    def data(self, function: str, *arguments: Any) -> str:  # noqa: ANN401
        """Return the data of a transaction that calls a function."""
        return artifact(self.name).functions[function].encode(*arguments)

    def decode(self, function: str, answer: bytes) -> Any:  # noqa: ANN401
        """Return what a view answered: the value, or a tuple if there are several.

        Raises:
            ChainUnavailable: If nothing answered, as on a fresh chain before its contracts are there.
        """
        if not answer:
            raise ChainUnavailable(f"could not read {function}", detail=f"there is no contract at {self.address}")
        values = artifact(self.name).functions[function].decode(answer)
        return values[0] if len(values) == 1 else values


@dataclass(frozen=True, slots=True, kw_only=True)
class Contracts:
    """The contracts of one grid.

    Attributes:
        chain_id: EIP-155 chain id.
        version: Of our generation, as ``2.0.0``; empty for plain DeepSquare 1.2, which has no batches and no seconds.
    """

    chain_id: int
    version: str
    meta_scheduler: Contract
    jobs: Contract
    providers: Contract
    queues: Contract
    constants: Contract
    credit: Contract

    @property
    def has_batches(self) -> bool:
        """Whether several calls go into one transaction and bills are in seconds."""
        return bool(self.version)


def find_contracts(node: Node, meta_scheduler: str) -> Contracts:
    """Return a grid's contracts, which its MetaScheduler names.

    Raises:
        ConfigError: If there is no MetaScheduler at the address, or one of a generation that we do not know.
        ChainUnavailable: If the chain does not answer.
    """
    chain_id = int(node.ask("eth_chainId"), 16)
    head = to_block(node.ask("eth_getBlockByNumber", "latest", False))
    found = Contract("MetaScheduler", meta_scheduler)
    names = ("jobs", "providerManager", "providerJobQueues", "constants", "credit")
    *answers, version = node.read([found.read(name) for name in (*names, "version")], at=head)
    if any(isinstance(answer, RpcError) or not answer for answer in answers):
        hint = "Set chain.contract to the address that `gridstead contracts deploy` printed."
        raise ConfigError(f"cannot find the grid's contracts at {meta_scheduler}", hint=hint)
    addresses = [
        str(found.decode(name, answer)).lower()
        for name, answer in zip(names, answers, strict=True)
        if isinstance(answer, bytes)
    ]
    told = text(found.decode("version", version)) if isinstance(version, bytes) and version else ""
    if told and told.split(".")[0] != COMPATIBLE_VERSION:
        hint = "Install a release that was made for them."
        raise ConfigError("cannot use the grid's contracts", detail=f"they have version {told}", hint=hint)
    return Contracts(
        chain_id=chain_id,
        version=told,
        meta_scheduler=found,
        jobs=Contract("JobRepository", addresses[0]),
        providers=Contract("ProviderManager", addresses[1]),
        queues=Contract("ProviderJobQueues", addresses[2]),
        constants=Contract("Constants", addresses[3]),
        credit=Contract("Credit", addresses[4]),
    )
