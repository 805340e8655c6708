# SPDX-License-Identifier: Apache-2.0
"""What is asked of Slurm for one attempt, and what must be true before it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridstead.domain.billing import Resources
from gridstead.domain.ids import JobKey

MAX_SCRIPT_BYTES = 1024 * 1024  # Slurm takes four times as much, unless its operator says otherwise
MAX_ENVIRONMENT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A batch script as the Job Definition service hands it out.

    Attributes:
        text: The script, with its interpreter line.
        environment: Secrets and tokens that travel in the job's environment, never in the text.
    """

    text: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridUser:
    """A customer's Linux account as the cluster sees it.

    Attributes:
        address: Wallet, which is the user name.
        uid: In the wallet range.
        gid: The grid's group.
    """

    address: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether a customer can run jobs here.

    Attributes:
        user: The account; None while it does not resolve.
        missing: What is not there yet, in words for the operator; empty when the gate is open.
    """

    user: GridUser | None
    missing: tuple[str, ...]

    @property
    def open(self) -> bool:
        """Whether a submission may go through."""
        return self.user is not None and not self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One attempt to be queued.

    Attributes:
        job key: Becomes AdminComment; its job's name becomes the Slurm name.
        user: Who it runs as.
        resources: What it gets.
        time_limit_min: Minutes that the lock pays for.
        script: What it runs.
    """

    job_key: JobKey
    user: GridUser
    resources: Resources
    time_limit_min: int
    script: Script
