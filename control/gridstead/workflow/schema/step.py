# SPDX-License-Identifier: Apache-2.0
"""A job and its steps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridstead.workflow.schema.base import MAX_STEPS, Model, Name
from gridstead.workflow.schema.resources import Env, JobResources
from gridstead.workflow.schema.run import StepRun


class Step(Model):
    """One step. Steps run one after the other; the first that fails ends the job with its exit code."""

    name: Name | None = Field(default=None, description="Shown by Slurm. At most 128 printable characters.")
    run: StepRun = Field(description="The command.")


class Workflow(Model):
    """A job: what it needs and what it does."""

    enable_logging: bool = Field(
        default=False, description="Whether its output goes to the grid's logger, where its owner can read it."
    )
    resources: JobResources = Field(description="What the whole job gets.")
    env: Env = Field(default=(), description="Variables of every step.")
    steps: Annotated[tuple[Step, ...], Field(strict=False, min_length=1, max_length=MAX_STEPS)] = Field(
        description="What it does, in order; 1 to 256 steps."
    )

    def to_graphql(self) -> dict[str, object]:
        """Return the workflow as the wire has it, without fields that have no value."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
