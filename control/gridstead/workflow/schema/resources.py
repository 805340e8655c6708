# SPDX-License-Identifier: Apache-2.0
"""What a job and a step get, and their variables."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridstead.workflow.schema.base import MAX_ENV, Count, CountOrNone, EnvName, Model, Text


class EnvVar(Model):
    """An environment variable."""

    key: EnvName = Field(
        description="Name: letters, digits and `_`, not starting with a digit. Not `PATH`, not `LD_LIBRARY_PATH`, "
        "and no variable that belongs to the shell, such as `UID`."
    )
    value: Text = Field(
        description="Value. Any text of at most 100 KiB; nothing in it is expanded."
    )


class JobResources(Model):
    """What the whole job gets. A step sees it as `NTASKS`, `CPUS_PER_TASK`, `MEM_PER_CPU`, `GPUS`,
    `CPUS`, `MEM`.
    """

    tasks: Count = Field(description="Processes that may run at once. At least 1.")
    cpus_per_task: Count = Field(description="CPU threads of each task. At least 1.")
    mem_per_cpu: Count = Field(description="Memory of each CPU thread, in MB. At least 1.")
    gpus: CountOrNone = Field(default=0, description="GPUs of the whole job.")


class StepRunResources(Model):
    """What a step takes of the job's resources; not more than the job has."""

    tasks: Count = Field(
        default=1, description="How many times the command runs, all at once. At least 1."
    )
    cpus_per_task: Count | None = Field(
        default=None, description="CPU threads of each task. As the job, if not given."
    )
    mem_per_cpu: Count | None = Field(
        default=None, description="Memory of each CPU thread, in MB. As the job, if not given."
    )
    gpus_per_task: CountOrNone = Field(default=0, description="GPUs of each task.")


Env = Annotated[tuple[EnvVar, ...], Field(strict=False, max_length=MAX_ENV)]
