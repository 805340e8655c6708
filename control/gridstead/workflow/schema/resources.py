# SPDX-License-Identifier: Apache-2.0
"""Resources of a job and of a step, and their variables."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridstead.workflow.schema.base import MAX_ENV, Count, CountOrZero, EnvName, Model, Text


class EnvVar(Model):
    """An environment variable."""

    key: EnvName = Field(
        description=(
            "Name: `A-Z`, `a-z`, `0-9` and `_`, not starting with a digit. `PATH`,"
            " `LD_LIBRARY_PATH` and variables of the shell, such as `UID`, are not allowed."
        )
    )
    value: Text = Field(
        description="Value: any text of at most 100 KiB. The shell expands nothing in it."
    )


class JobResources(Model):
    """Resources of the whole job.

    A step reads them as `NTASKS`, `CPUS_PER_TASK`, `MEM_PER_CPU`, `GPUS`, `CPUS`, `MEM`.
    """

    tasks: Count = Field(description="Maximum number of tasks at the same time. At least 1.")
    cpus_per_task: Count = Field(description="CPU threads of each task. At least 1.")
    mem_per_cpu: Count = Field(description="Memory of each CPU thread, in MB. At least 1.")
    gpus: CountOrZero = Field(default=0, description="GPUs of the whole job.")


class StepRunResources(Model):
    """The part of the job's resources that a step uses."""

    tasks: Count = Field(
        default=1, description="Number of tasks that run the command in parallel. At least 1."
    )
    cpus_per_task: Count | None = Field(
        default=None, description="CPU threads of each task. Default: as in the job."
    )
    mem_per_cpu: Count | None = Field(
        default=None, description="Memory of each CPU thread, in MB. Default: as in the job."
    )
    gpus_per_task: CountOrZero = Field(default=0, description="GPUs of each task.")


Env = Annotated[tuple[EnvVar, ...], Field(strict=False, max_length=MAX_ENV)]
