# SPDX-License-Identifier: Apache-2.0
"""The submission of a job to Slurm, and the gate: the check of a customer before the submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobKey

MAX_SCRIPT_BYTES = 1024 * 1024  # a quarter of Slurm's default limit, max_script_size
MAX_ENVIRONMENT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A batch script from the Job Definition service.

    Attributes:
        text: The script, with its interpreter line.
        environment: Secrets and tokens, which the job gets only as environment variables.
    """

    text: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridUser:
    """The Linux account of a customer.

    Attributes:
        address: The address of the wallet. It is the user name.
        uid: The user id, in the range of wallet users.
        gid: The group id of the grid's group.
    """

    address: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether jobs of a customer can run on the cluster.

    Attributes:
        user: The customer's Linux account. None if the user name does not resolve.
        missing: One message for the operator about each missing prerequisite.
    """

    user: GridUser | None
    missing: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Whether jobs of the customer may be submitted."""
        return self.user is not None and not self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job to submit to Slurm.

    Attributes:
        job_key: The job key, which becomes the AdminComment. Its job number becomes the job name.
        user: The Linux user of the job.
        resources: The resources of the job.
        time_limit_min: The time limit, minutes.
        script: The batch script.
    """

    job_key: JobKey
    user: GridUser
    resources: Resources
    time_limit_min: int
    script: Script
