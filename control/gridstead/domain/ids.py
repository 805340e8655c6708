# SPDX-License-Identifier: Apache-2.0
"""Names of things that cross system borders.

A job is (chain id, MetaScheduler address, number): numbers are counters and start again on a new
set of contracts, a fresh devnet or after a reorg. The *job key* adds the batch location hash, which
is a salted hash of the script, so equal numbers of two histories never look the same. Slurm carries
the number as the job's name (a key to search by, the user can change it) and the job key as
AdminComment (the user cannot).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gridstead.errors import InvalidInput

_ADDRESS = re.compile(r"0x[0-9a-f]{40}")
_SLURM_NAME = re.compile(r"0x[0-9a-f]{64}")
_BATCH_LOCATION_HASH = re.compile(r"[A-Za-z0-9_-]{1,31}")
_JOB_KEY = re.compile(r"(\d{1,20})/(0x[0-9a-f]{40})/(0x[0-9a-f]{64})/([A-Za-z0-9_-]{1,31})")


def parse_address(text: str) -> str:
    """Return a wallet or contract address in lower case.

    Raises:
        InvalidInput: If it is not 0x and 40 hexadecimal digits.
    """
    address = text.strip().lower()
    if not _ADDRESS.fullmatch(address):
        raise InvalidInput(
            f"invalid address {text[:80]!r}", hint="An address is 0x and 40 hexadecimal digits."
        )
    return address


def is_address(text: str) -> bool:
    """Return whether the text is an address in the one spelling we use: lower case."""
    return _ADDRESS.fullmatch(text) is not None


def is_batch_location_hash(text: str) -> bool:
    """Return whether the text can name a stored script and stand in a job key."""
    return _BATCH_LOCATION_HASH.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class JobId:
    """A job of the grid, world-wide.

    Attributes:
        chain_id: EIP-155 chain id.
        contract: The MetaScheduler's address, lower case.
        number: The contract's counter.
    """

    chain_id: int
    contract: str
    number: int

    @property
    def slurm_name(self) -> str:
        """The Slurm job name: 0x and 64 hexadecimal digits."""
        return f"0x{self.number:064x}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class JobKey:
    """What binds a Slurm job to one job of one history of the chain; its text is the AdminComment."""

    job_id: JobId
    batch_location_hash: str

    def __str__(self) -> str:
        job_id = self.job_id
        return f"{job_id.chain_id}/{job_id.contract}/{job_id.slurm_name}/{self.batch_location_hash}"


def parse_job_key(text: str) -> JobKey | None:
    """Return the job key that an AdminComment holds, None if it holds none (somebody else's job)."""
    match = _JOB_KEY.fullmatch(text)
    if match is None:
        return None
    chain_id, contract, name, batch_location_hash = match.groups()
    job_id = JobId(chain_id=int(chain_id), contract=contract, number=int(name, 16))
    return JobKey(job_id=job_id, batch_location_hash=batch_location_hash)


def parse_slurm_name(text: str) -> int | None:
    """Return the job number that a Slurm job name spells, None if it spells none."""
    return int(text, 16) if _SLURM_NAME.fullmatch(text) else None
