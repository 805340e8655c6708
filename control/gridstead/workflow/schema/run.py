# SPDX-License-Identifier: Apache-2.0
"""A command and what it runs in."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gridstead.workflow.schema.base import AbsolutePath, CountOrNone, Model, Text, shown_as
from gridstead.workflow.schema.container import ContainerRun
from gridstead.workflow.schema.network import Ip, NetworkInterface
from gridstead.workflow.schema.resources import Env, StepRunResources

HOST_SHELLS = ("/bin/sh", "/bin/bash")
ENTRYPOINT = "ENTRYPOINT"
HOST = "host"
MAX_SERVERS = 3  # more a resolver does not ask
MAX_INTERFACES = 16
SHELLS = (*HOST_SHELLS, "/bin/ash", ENTRYPOINT)


def _shell(value: str) -> str:
    if value not in SHELLS:
        raise ValueError(f"must be {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")
    return value


Shell = Annotated[str, AfterValidator(_shell), shown_as(enum=list(SHELLS))]


class StepRun(Model):
    """A command that runs on the provider's host, in the job's own directory, `$STORAGE_PATH`, or
    in a container.
    """

    command: Text = Field(
        description="Text for the shell, one or several lines, at most 100 KiB. In a container it may be empty: the "
        "image's own."
    )
    shell: Shell = Field(
        default="/bin/sh",
        description="`/bin/sh`, `/bin/bash`, or in a container also `/bin/ash`, or `ENTRYPOINT`: the image's own, to "
        "which go the words of the command; nothing in them is expanded.",
    )
    resources: StepRunResources = Field(
        default=StepRunResources(), description="What it takes of the job's resources."
    )
    env: Env = Field(default=(), description="Variables of this step, over those of the job.")
    container: ContainerRun | None = Field(
        default=None, description="What it runs in; the host, if not given."
    )
    work_dir: AbsolutePath | None = Field(
        default=None,
        description="Directory to run in; an absolute path, made on the host if it is not there. "
        "In a container `/`, if not given.",
    )
    map_uid: CountOrNone | None = Field(
        default=None,
        description="User that the command seems to be, in a namespace of its own. In a container only 0.",
    )
    map_gid: CountOrNone | None = Field(
        default=None, description="Group that it seems to be; as for the user."
    )
    disable_cpu_binding: bool = Field(
        default=False,
        description="Whether its threads may run on all CPUs of the step instead of each on its own.",
    )
    mpi: Literal["none", "pmix_v4", "pmi2"] | None = Field(
        default=None,
        description="How Slurm starts MPI programs: `none`, `pmi2`, or `pmix_v4`, which is PMIx in the version of the "
        "provider. As at the provider, if not given.",
    )

    network: Literal["host", "slirp4netns", "pasta"] = Field(
        default="host",
        description="`host`: that of its node. `slirp4netns` or `pasta`: one of its own, with a way out and none in; "
        "its interface is `net0`. Each task has one.",
    )
    dns: Annotated[tuple[Ip, ...], Field(strict=False, max_length=MAX_SERVERS)] = Field(
        default=(),
        description="Name servers, in a network of its own; on the host's they do nothing.",
    )
    custom_network_interfaces: Annotated[
        tuple[NetworkInterface, ...], Field(strict=False, max_length=MAX_INTERFACES)
    ] = Field(
        default=(), description="Tunnels, in a network of its own; on the host's they do nothing."
    )

    @property
    def interfaces(self) -> tuple[NetworkInterface, ...]:
        """The tunnels that there are."""
        return () if self.network == HOST else self.custom_network_interfaces

    @model_validator(mode="after")
    def _of_a_container(self) -> Self:
        if not self.command and not self.container:
            raise ValueError("has an empty command, which only a container can have")
        if self.shell not in HOST_SHELLS and not self.container:
            raise ValueError(f"has the shell {self.shell}, which only a container can have")
        try:
            shlex.split(self.command if self.shell == ENTRYPOINT else "")
        except ValueError as err:
            raise ValueError("has a command whose quotes do not end") from err
        if self.container and (self.map_uid or self.map_gid):
            raise ValueError("maps to another user than 0, which a container cannot")
        return self
