# SPDX-License-Identifier: Apache-2.0
"""A command and its environment."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gridstead.workflow.schema.base import (
    AbsolutePath,
    CountOrZero,
    Model,
    RuleError,
    Text,
    schema_rule,
)
from gridstead.workflow.schema.container import ContainerRun
from gridstead.workflow.schema.network import Ip, NetworkInterface
from gridstead.workflow.schema.resources import Env, StepRunResources

HOST_SHELLS = ("/bin/sh", "/bin/bash")
ENTRYPOINT = "ENTRYPOINT"
HOST = "host"
MAX_NAME_SERVERS = 3  # the resolver of libc ignores further ones
MAX_INTERFACES = 16
SHELLS = (*HOST_SHELLS, "/bin/ash", ENTRYPOINT)


def _shell(value: str) -> str:
    if value not in SHELLS:
        raise ValueError(f"must be {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")
    return value


Shell = Annotated[str, AfterValidator(_shell), schema_rule(enum=list(SHELLS))]


class StepRun(Model):
    """A command on the provider's node or in a container.

    On the node it runs in the job's directory `$STORAGE_PATH`.
    """

    command: Text = Field(
        description=(
            "Shell text, one or several lines, at most 100 KiB. In a container the text may be"
            " empty. The command of the image then runs."
        )
    )
    shell: Shell = Field(
        default="/bin/sh",
        description=(
            "`/bin/sh` or `/bin/bash`. In a container also `/bin/ash`, or `ENTRYPOINT` for the"
            " entry point of the image, which receives the words of the command without expansion."
        ),
    )
    resources: StepRunResources = Field(
        default=StepRunResources(), description="Resources of the step."
    )
    env: Env = Field(
        default=(),
        description="Variables of this step. They replace variables of the job with the same name.",
    )
    container: ContainerRun | None = Field(
        default=None, description="Container in which the command runs. Default: no container."
    )
    work_dir: AbsolutePath | None = Field(
        default=None,
        description=(
            "Working directory, an absolute path. On the node it is created if it does not exist."
            " Default in a container: the directory that the image names, otherwise `/`."
        ),
    )
    map_uid: CountOrZero | None = Field(
        default=None,
        description=(
            "User id of the command in a user namespace. In Apptainer only 0 is allowed. If"
            " `network` is not `host`, user 0 may configure the step's network, except in Enroot."
        ),
    )
    map_gid: CountOrZero | None = Field(
        default=None,
        description="Group id of the command in a user namespace. In Apptainer only 0 is allowed.",
    )
    disable_cpu_binding: bool = Field(
        default=False,
        description=(
            "Whether each task may use all CPUs of the step, not only the CPUs of the task."
        ),
    )
    mpi: Literal["none", "pmix_v4", "pmi2"] | None = Field(
        default=None,
        description=(
            "MPI plugin of Slurm: `none`, `pmi2` or `pmix_v4`. `pmix_v4` selects the provider's"
            " version of PMIx. Default: the provider's default plugin."
        ),
    )

    network: Literal["host", "slirp4netns", "pasta"] = Field(
        default="host",
        description=(
            "`host`: the network of the node. `slirp4netns` or `pasta`: a network namespace for"
            " each task, with outgoing connections only. Its interface is `net0`."
        ),
    )
    dns: Annotated[tuple[Ip, ...], Field(strict=False, max_length=MAX_NAME_SERVERS)] = Field(
        default=(),
        description="Name servers in a network namespace. No effect if `network` is `host`.",
    )
    custom_network_interfaces: Annotated[
        tuple[NetworkInterface, ...], Field(strict=False, max_length=MAX_INTERFACES)
    ] = Field(
        default=(), description="Tunnels in a network namespace. No effect if `network` is `host`."
    )

    @property
    def interfaces(self) -> tuple[NetworkInterface, ...]:
        """Return the interfaces of the network namespace. Empty on the host network."""
        return () if self.network == HOST else self.custom_network_interfaces

    @model_validator(mode="after")
    def _check_container(self) -> Self:
        if not self.command and not self.container:
            reason = "has an empty command, which is allowed only in a container"
            raise RuleError(reason, key="command")
        if self.shell not in HOST_SHELLS and not self.container:
            reason = f"has the shell {self.shell}, which is allowed only in a container"
            raise RuleError(reason, key="shell")
        if self.shell == ENTRYPOINT:
            try:
                shlex.split(self.command)
            except ValueError as err:
                raise RuleError("has a command with an unclosed quote", key="command") from err
        needs_apptainer = self.container and (
            self.container.apptainer or self.container.deepsquare_hosted
        )
        if needs_apptainer and (self.map_uid or self.map_gid):
            raise ValueError("maps to a user other than 0, which Apptainer does not support")
        return self
