# SPDX-License-Identifier: Apache-2.0
"""The identifiers of jobs and wallets that several systems share.

A *job id* is (chain id, MetaScheduler address, job number). The contract counts the job numbers.
The count starts again with a new deployment of the contracts and on a new devnet, and after a reorg
a number can be used again. The *job key* is the job id and the batch location hash, which is a
salted hash of the script. So two jobs that get the same number before and after a reorg have
different job keys.

In Slurm the job name is the job number. The program finds jobs by this name, but a user can change
the name of a job. The AdminComment of a Slurm job is the job key, which a user cannot change.

Rule 1: the program represents a job by a ``JobId`` or a ``JobKey``, not by a number or a text.
Rule 2: only packages adapters, rpc and cli convert texts to these classes. Several adapters parse a
job name or the text of a job key, so these two parsers are in this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gridstead.errors import InvalidInput

_ADDRESS = re.compile(r"0x[0-9a-f]{40}")
_SLURM_JOB_NAME = re.compile(r"0x[0-9a-f]{64}")
_BATCH_LOCATION_HASH = re.compile(r"[A-Za-z0-9_-]{1,31}")
_JOB_KEY = re.compile(r"(\d{1,20})/(0x[0-9a-f]{40})/(0x[0-9a-f]{64})/([A-Za-z0-9_-]{1,31})")


def parse_address(text: str) -> str:
    """Return a wallet or contract address in lower case.

    Raises:
        InvalidInput: If the text is not 0x and 40 hexadecimal digits.
    """
    address = text.strip().lower()
    if not _ADDRESS.fullmatch(address):
        raise InvalidInput(
            f"invalid address {text[:80]!r}", hint="An address is 0x and 40 hexadecimal digits."
        )
    return address


def is_address(text: str) -> bool:
    """Return whether the text is an address in lower case. The program uses no other form."""
    return _ADDRESS.fullmatch(text) is not None


def is_batch_location_hash(text: str) -> bool:
    """Return whether the text is a valid id of a stored script."""
    return _BATCH_LOCATION_HASH.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class JobId:
    """The id of a job. It is unique across chains and contracts.

    Attributes:
        chain_id: EIP-155 chain id.
        contract: The address of the MetaScheduler, lower case.
        number: The job number, a counter of the contract.
    """

    chain_id: int
    contract: str
    number: int

    @property
    def request_order(self) -> int:
        """The position of the job in the order of the requests of its contract."""
        return self.number

    @property
    def slurm_job_name(self) -> str:
        """The Slurm job name: 0x and 64 hexadecimal digits."""
        return f"0x{self.number:064x}"

    def __str__(self) -> str:
        """Return the job number, by which messages refer to a job."""
        return str(self.number)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class JobKey:
    """The key that binds a Slurm job to one job on the chain. Its text is the AdminComment."""

    job_id: JobId
    batch_location_hash: str

    def __str__(self) -> str:
        job_id = self.job_id
        job_id_text = f"{job_id.chain_id}/{job_id.contract}/{job_id.slurm_job_name}"
        return f"{job_id_text}/{self.batch_location_hash}"


def parse_job_key(text: str) -> JobKey | None:
    """Return the job key in an AdminComment. Returns None if the text is not a job key."""
    match = _JOB_KEY.fullmatch(text)
    if match is None:
        return None
    chain_id, contract, name, batch_location_hash = match.groups()
    job_id = JobId(chain_id=int(chain_id), contract=contract, number=int(name, 16))
    return JobKey(job_id=job_id, batch_location_hash=batch_location_hash)


def parse_slurm_job_name(text: str) -> int | None:
    """Return the job number in a Slurm job name. Returns None if the text is not a job number."""
    return int(text, 16) if _SLURM_JOB_NAME.fullmatch(text) else None
