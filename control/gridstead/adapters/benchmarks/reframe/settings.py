# SPDX-License-Identifier: Apache-2.0
"""The configuration of ReFrame: the content of the file settings.json next to this file.

``../steps.py`` copies this file and writes the JSON file. ReFrame runs the copy in its own
environment, in which gridstead is not installed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from reframe.core.backends import register_scheduler
from reframe.core.exceptions import SpawnedProcessError
from reframe.core.schedulers import Job
from reframe.core.schedulers.slurm import SlurmJobScheduler

site_configuration = json.loads(Path(__file__).with_name("settings.json").read_text())


@register_scheduler("preemptible-slurm")
class PreemptibleSlurm(SlurmJobScheduler):
    """Slurm with a partition that has ``PreemptMode=CANCEL``.

    ReFrame waits for a job in state PREEMPTED, because with other modes Slurm starts it again.
    """

    def finished(self, job: Job) -> bool:
        """Return whether a job has ended."""
        return job.state == "PREEMPTED" or bool(super().finished(job))

    def cancel_many(self, jobs: Iterable[Job]) -> None:
        """Cancel jobs. Jobs that end meanwhile are no error, which would stop ReFrame."""
        running_jobs = [job for job in jobs if not self.finished(job)]
        for job in running_jobs:
            # Without slurmctld no job can be cancelled. ReFrame tries again at the next poll.
            with contextlib.suppress(SpawnedProcessError):
                super().cancel_many([job])
