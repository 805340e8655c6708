# SPDX-License-Identifier: Apache-2.0
"""A command and what it runs in."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from gridstead.workflow.schema.base import AbsolutePath, Model, Text, shown_as
from gridstead.workflow.schema.later import CONTAINER
from gridstead.workflow.schema.resources import Env, StepRunResources

SHELLS = ("/bin/sh", "/bin/bash")


def _shell(value: str) -> str:
    if value in ("/bin/ash", "ENTRYPOINT"):
        raise ValueError(f"{value} needs a container; {CONTAINER} are not supported by this grid yet")
    if value not in SHELLS:
        raise ValueError("must be /bin/sh or /bin/bash")
    return value


Shell = Annotated[str, AfterValidator(_shell), shown_as(enum=list(SHELLS))]


class StepRun(Model):
    """A command that runs on the provider's host, in the job's own directory, `$STORAGE_PATH`."""

    command: Annotated[Text, Field(min_length=1)] = Field(
        description="Text for the shell, one or several lines, at most 100 KiB."
    )
    shell: Shell = Field(default="/bin/sh", description="`/bin/sh` or `/bin/bash`.")
    resources: StepRunResources = Field(default=StepRunResources(), description="What it takes of the job's resources.")
    env: Env = Field(default=(), description="Variables of this step, over those of the job.")
    work_dir: AbsolutePath | None = Field(
        default=None, description="Directory to run in; an absolute path, made if it is not there."
    )
