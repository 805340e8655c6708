# SPDX-License-Identifier: Apache-2.0
"""The deployment file, which records each transaction before it is sent, and its result.

Rule 1: an intent (the record of a planned transaction) is on the disk before the transaction is
sent. The intent records the nonce. The address of a contract follows from the creator of the
contract and the nonce. So the next run finds the contract even if this run is killed right after it
has sent the transaction.

Rule 2: a step keeps its nonce until the nonce is used, so a step creates at most one contract.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gridstead.adapters.disk import sync
from gridstead.domain.jobs.ids import parse_address
from gridstead.domain.transactions.outbox import Fees
from gridstead.errors import ConfigError, InvalidInput, Rejected


class InUse(Rejected):
    """Another run holds the lock of the deployment."""

    code = "deployment-in-use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The chain of a deployment, and the wallet that made it."""

    chain_id: int
    genesis: str
    admin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A transaction that was about to be sent.

    Attributes:
        step: The title of the step.
        nonce: The nonce of the transaction.
        hashes: The hashes of all transactions that were signed for the step and this nonce, the
            newest last.
        gas: The gas limit of the transaction.
        max_fee: The max fee of the newest transaction, wei per gas.
        tip: The tip of the newest transaction, wei per gas.
        block: The height of the block with the transaction; None if it is not known to be mined.
    """

    step: str
    nonce: int
    hashes: tuple[str, ...]
    gas: int
    max_fee: int
    tip: int
    block: int | None = None

    @property
    def fees(self) -> Fees:
        """The fees of the newest transaction."""
        return Fees(max_fee=self.max_fee, tip=self.tip)


@dataclass(slots=True, kw_only=True)
class Record:
    """The contents of the file: addresses by contract name, and intents, oldest first."""

    origin: Origin
    contracts: dict[str, str]
    intents: list[Intent]

    @property
    def first_block(self) -> int | None:
        """The lowest block that has a transaction of the deployment, None if none is known."""
        blocks = [intent.block for intent in self.intents if intent.block is not None]
        return min(blocks, default=None)

    def intent(self, step: str) -> Intent | None:
        """Return the newest intent of a step."""
        for intent in reversed(self.intents):
            if intent.step == step:
                return intent
        return None


def read(path: Path) -> Record | None:
    """Return the contents of a deployment file, None if the file does not exist.

    Raises:
        ConfigError: If the file cannot be read, or is not a deployment file.
    """
    try:
        document = json.loads(path.read_text())
        origin = Origin(**{key: document[key] for key in ("chain_id", "genesis", "admin")})
        contracts: dict[str, str] = {}
        for name, address in document["contracts"].items():
            contracts[str(name)] = parse_address(address)
        intents = list(map(_to_intent, document.get("transactions", ())))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, AttributeError, TypeError, InvalidInput) as err:
        hint = "Move the file to another folder to deploy a new set."
        raise ConfigError(f"cannot read the deployment {path}", detail=str(err), hint=hint) from err
    return Record(origin=origin, contracts=contracts, intents=intents)


def _to_intent(transaction: Mapping[str, Any]) -> Intent:
    return Intent(**{**transaction, "hashes": tuple(transaction["hashes"])})


def write(path: Path, record: Record) -> None:
    """Replace the file atomically with a record.

    Raises:
        ConfigError: If the file cannot be written.
    """
    document = asdict(record.origin) | {
        "first_block": record.first_block,
        "contracts": record.contracts,
        "transactions": list(map(asdict, record.intents)),
    }
    new_file = path.with_name(f"{path.name}.new")
    try:
        new_file.write_text(json.dumps(document, indent=2) + "\n")
        sync(new_file)
        new_file.replace(path)
        sync(path.parent)
    except OSError as err:
        raise ConfigError(f"cannot write the deployment {path}", detail=str(err)) from err


def rename_file(path: Path, record: Record) -> Path:
    """Rename the file of another chain or admin, and return its new path.

    The new name contains the chain and the admin. An existing file is not replaced.

    Raises:
        ConfigError: If the file cannot be renamed.
    """
    candidates = _renamed_paths(path, record.origin)
    new_path = next(candidate for candidate in candidates if not candidate.exists())
    try:
        path.replace(new_path)
    except OSError as err:
        raise ConfigError(f"cannot rename the deployment {path}", detail=str(err)) from err
    return new_path


def read_renamed(path: Path, origin: Origin) -> Record | None:
    """Return the record of the newest renamed file of a chain and admin, None if there is none.

    Raises:
        ConfigError: If a renamed file cannot be read, or is not a deployment file.
    """
    newest = None
    for renamed_path in itertools.takewhile(Path.exists, _renamed_paths(path, origin)):
        record = read(renamed_path)
        if record is not None and record.origin == origin:
            newest = record
    return newest


def _renamed_paths(path: Path, origin: Origin) -> Iterator[Path]:
    """Yield the paths of renamed files of a chain and admin, in order of use, without end."""
    name = f"{path.name}.{origin.chain_id}-{origin.genesis[2:10]}-{origin.admin[2:10]}"
    yield path.with_name(name)
    for number in itertools.count(2):
        yield path.with_name(f"{name}-{number}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the file's folder, so that no other run uses a deployment file there.

    Raises:
        InUse: If another run holds the lock.
        ConfigError: If the folder does not exist.
    """
    try:
        folder_fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as err:
        raise ConfigError(f"cannot write the deployment {path}", detail=str(err)) from err
    try:
        fcntl.flock(folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as err:
        detail = f"it holds the lock of {path.parent}"
        raise InUse("another run deploys contracts", detail=detail) from err
    finally:
        os.close(folder_fd)
