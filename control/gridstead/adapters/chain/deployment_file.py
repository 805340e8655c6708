# SPDX-License-Identifier: Apache-2.0
"""The file in which a deployment writes down what it is about to send, and what has come of it.

Rule 1: an intent is on the disk before its transaction is sent. It holds the nonce, and sender and
nonce make the address of a contract, so the next run finds what this one has sent, even if it was
killed right after.
Rule 2: a step whose nonce is not used up keeps that nonce; whatever is mined of it is then the same
contract.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from gridstead.domain.ids import parse_address
from gridstead.domain.sending import Fees
from gridstead.errors import ConfigError, InvalidInput, Rejected


class InUse(Rejected):
    """Another run works on the same deployment."""

    code = "deployment-in-use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Which chain a deployment is on, and who made it."""

    chain_id: int
    genesis: str
    admin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A transaction that was about to be sent.

    Attributes:
        step: What it does.
        nonce: Its place among the admin's transactions.
        hashes: Of all that were signed for it, which differ in fees only; the newest last.
        gas: Its gas limit.
        max_fee: What the newest offers, wei per gas.
        tip: The same.
        block: Where it was mined; None while that is not known.
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
        """What the newest transaction offers."""
        return Fees(max_fee=self.max_fee, tip=self.tip)


@dataclass(slots=True, kw_only=True)
class Record:
    """What the file holds: addresses by contract name, and intents, oldest first."""

    origin: Origin
    contracts: dict[str, str]
    intents: list[Intent]

    @property
    def first_block(self) -> int | None:
        """The lowest block with something of the deployment, if one is known."""
        return min((one.block for one in self.intents if one.block is not None), default=None)

    def intent(self, step: str) -> Intent | None:
        """Return the newest intent of a step."""
        return next((one for one in reversed(self.intents) if one.step == step), None)


def read(path: Path) -> Record | None:
    """Return what a deployment file holds, None if there is none.

    Raises:
        ConfigError: It cannot be read, or is no deployment file.
    """
    try:
        document = json.loads(path.read_text())
        origin = Origin(**{key: document[key] for key in ("chain_id", "genesis", "admin")})
        contracts = {
            str(name): parse_address(address) for name, address in document["contracts"].items()
        }
        intents = [
            Intent(**(one | {"hashes": tuple(one["hashes"])}))
            for one in document.get("transactions", ())
        ]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, AttributeError, TypeError, InvalidInput) as err:
        hint = "Move the file away to deploy anew."
        raise ConfigError(f"cannot read the deployment {path}", detail=str(err), hint=hint) from err
    return Record(origin=origin, contracts=contracts, intents=intents)


def write(path: Path, record: Record) -> None:
    """Put a record on the disk in place of the old one, all of it or nothing.

    Raises:
        ConfigError: It cannot be written.
    """
    document = asdict(record.origin) | {
        "first_block": record.first_block,
        "contracts": record.contracts,
        "transactions": [asdict(one) for one in record.intents],
    }
    beside = path.with_name(f"{path.name}.new")
    try:
        with beside.open("w") as file:
            file.write(json.dumps(document, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _sync_folder(path.parent)
    except OSError as err:
        raise ConfigError(f"cannot write the deployment {path}", detail=str(err)) from err


def set_aside(path: Path, record: Record) -> Path:
    """Keep the file of another chain or admin under a name that tells both and is new, and return
    that name.
    """
    aside = next(one for one in _asides(path, record.origin) if not one.exists())
    try:
        path.replace(aside)
    except OSError as err:
        raise ConfigError(f"cannot set the deployment {path} aside", detail=str(err)) from err
    return aside


def last_aside(path: Path, origin: Origin) -> Record | None:
    """Return what was last set aside for a chain and admin, None if nothing was.

    Raises:
        ConfigError: It cannot be read, or is no deployment file.
    """
    there = itertools.takewhile(Path.exists, _asides(path, origin))
    found = [
        record for record in map(read, there) if record is not None and record.origin == origin
    ]
    return found[-1] if found else None


def _asides(path: Path, origin: Origin) -> Iterator[Path]:
    """Return the names that files of a chain and admin are set aside under, the first one first."""
    name = f"{path.name}.{origin.chain_id}-{origin.genesis[2:10]}-{origin.admin[2:10]}"
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return map(path.with_name, names)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other runs away from the deployments in the file's folder.

    Raises:
        InUse: One is at work.
        ConfigError: There is no such folder.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as err:
        raise ConfigError(f"cannot write the deployment {path}", detail=str(err)) from err
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as err:
        raise InUse("another run deploys contracts", detail=f"it works in {path.parent}") from err
    finally:
        os.close(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
