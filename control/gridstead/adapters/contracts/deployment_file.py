# SPDX-License-Identifier: Apache-2.0
"""The deployment file: the addresses of a set of contracts, and what they follow from.

The file is written before the first contract is created. An interrupted deployment needs it only to
refuse options that would create another set. Files of earlier releases, whose sets were created
without a deployer, have no deployer, supply and salt.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gridstead.adapters.disk import sync
from gridstead.domain.jobs.ids import parse_address
from gridstead.errors import ConfigError, InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The contents of a deployment file.

    Attributes:
        chain_id: EIP-155 chain id.
        genesis: The hash of the first block of the chain.
        admin: The wallet that deployed the contracts.
        deployer: The factory that created the contracts. None in files of earlier releases.
        supply_wei: The credits that the admin received. None in files of earlier releases.
        salt: The text of the salt. None in files of earlier releases.
        first_block: The block of the first contract, or an earlier block. None if it is unknown.
        contracts: The addresses by contract name.
    """

    chain_id: int
    genesis: str
    admin: str
    deployer: str | None = None
    supply_wei: int | None = None
    salt: str | None = None
    first_block: int | None = None
    contracts: dict[str, str] = field(default_factory=dict)

    def differences(self, other: Record) -> list[str]:
        """Return how another record is of another chain, admin or set, as texts."""
        texts = []
        for key in ("chain_id", "genesis", "admin", "supply_wei", "salt"):
            recorded_value, value = getattr(self, key), getattr(other, key)
            if recorded_value is not None and recorded_value != value:
                texts.append(f"its {key} is {recorded_value}, here it is {value}")
        return texts


def read(path: Path) -> Record | None:
    """Return the contents of a deployment file, None if the file does not exist.

    Raises:
        ConfigError: If the file cannot be read, or is not a deployment file.
    """
    try:
        document = json.loads(path.read_text())
        contracts: dict[str, str] = {}
        for name, address in document["contracts"].items():
            contracts[str(name)] = parse_address(address)
        deployer, salt = document.get("deployer"), document.get("salt")
        return Record(
            chain_id=int(document["chain_id"]),
            genesis=str(document["genesis"]),
            admin=str(document["admin"]),
            deployer=parse_address(deployer) if deployer else None,
            supply_wei=_to_int(document.get("supply_wei")),
            salt=None if salt is None else str(salt),
            first_block=_to_int(document.get("first_block")),
            contracts=contracts,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, AttributeError, TypeError, InvalidInput) as err:
        hint = "Move the file to another folder to deploy a new set."
        raise ConfigError(f"cannot read the deployment {path}", detail=str(err), hint=hint) from err


def _to_int(value: Any) -> int | None:  # noqa: ANN401
    return None if value is None else int(value)


def write(path: Path, record: Record) -> None:
    """Replace the file atomically with a record.

    Raises:
        ConfigError: If the file cannot be written.
    """
    new_file = path.with_name(f"{path.name}.new")
    try:
        new_file.write_text(json.dumps(asdict(record), indent=2) + "\n")
        sync(new_file)
        new_file.replace(path)
        sync(path.parent)
    except OSError as err:
        raise ConfigError(f"cannot write the deployment {path}", detail=str(err)) from err
