# SPDX-License-Identifier: Apache-2.0
"""The container image that a command runs in."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from gridstead.workflow.schema.base import (
    MAX_NAME,
    MAX_PATH,
    AbsolutePath,
    Model,
    RuleError,
    schema_rule,
)

MAX_MOUNTS = 64

_IMAGE = r"[a-z0-9/._-]+(:[A-Za-z0-9._:-]+)?"  # library/debian:12
_REGISTRY = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"  # registry.example:5000
_FOLDER = r"/[^\s:,\"\\]*"  # Enroot separates mounts by white space
_WORD = r"[!-~]*"  # printable ASCII characters except the space


def _image(value: str) -> str:
    if value.startswith("/"):
        if not value.isprintable() or value.endswith("/"):
            raise ValueError("is not the path of an image")
    elif not re.fullmatch(_IMAGE, value):
        raise ValueError(
            "is not an image: a lower-case name with a tag, such as library/debian:12, or an"
            " absolute path"
        )
    return value


def _registry(value: str) -> str:
    if not re.fullmatch(_REGISTRY, value):
        raise ValueError("is not a registry: a host name, with an optional port")
    return value


def _word(value: str) -> str:
    if not re.fullmatch(_WORD, value):
        raise ValueError("contains a character that is not allowed in names and passwords")
    return value


def _folder(value: str) -> str:
    if not re.fullmatch(_FOLDER, value):
        raise ValueError("contains a character that is not allowed in a mounted folder")
    return value


def _access(value: str) -> str:
    if value not in ("", "ro", "rw"):
        raise ValueError("must be ro or rw")
    return value


Word = Annotated[
    str, Field(max_length=MAX_NAME * 16), AfterValidator(_word), schema_rule(pattern=f"^{_WORD}$")
]
Folder = Annotated[AbsolutePath, AfterValidator(_folder), schema_rule(pattern=f"^{_FOLDER}$")]


class Mount(Model):
    """A folder of the node that is mounted in a container."""

    host_dir: Folder = Field(description="Folder on the node.")
    container_dir: Folder = Field(description="Mount point in the container.")
    options: Annotated[str, AfterValidator(_access), schema_rule(enum=["", "ro", "rw"])] = Field(
        default="", description="`ro` for read-only. `rw` or empty for read and write."
    )


class ContainerRun(Model):
    """The image of a container and its mounts.

    The job's directory is mounted as `/deepsquare`, and the variables of the job's directories
    contain this path. The runtime is Enroot on nodes that have it, otherwise Apptainer. An image is
    fetched once for all steps of a job. Files that a command writes outside the mounts are on the
    disk of the node. Only the free space of the disk limits their size. They are removed after the
    step.

    Variables of the workflow replace variables of the image. In Enroot, variables of the image
    replace variables of the node. In Apptainer, only `PATH` of the image replaces that of the node.
    """

    image: Annotated[
        str,
        Field(max_length=MAX_PATH),
        AfterValidator(_image),
        schema_rule(pattern=f"^(/.*[^/]|{_IMAGE})$"),
    ] = Field(
        description=(
            "Name with a tag, or the path of an image file. The path starts with `/`. This"
            " `/` is the job's directory."
        )
    )
    registry: (
        Annotated[
            str,
            Field(max_length=MAX_NAME),
            AfterValidator(_registry),
            schema_rule(pattern=f"^{_REGISTRY}$"),
        ]
        | None
    ) = Field(default=None, description="Registry of the image. Default: Docker Hub.")
    username: Word | None = Field(
        default=None, description="User name at the registry. Empty: no login.", repr=False
    )
    password: Word | None = Field(
        default=None,
        description=(
            "Password at the registry. It is not part of the script. A supervisor that does"
            " not support separate secrets, such as DeepSquare's, cannot run a job with a password."
        ),
        repr=False,
    )
    apptainer: bool = Field(default=False, description="Whether Apptainer is required.")
    deepsquare_hosted: bool = Field(
        default=False,
        description=(
            "Whether the provider's nodes already have the unpacked image, as"
            " `/opt/software/<registry>/<image>`. It runs in Apptainer."
        ),
    )
    x11: bool = Field(default=False, description="Whether the node's X server is mounted.")
    mount_home: bool = Field(default=False, description="Whether the customer's home is mounted.")
    read_only_root_fs: bool = Field(
        default=False,
        alias="readOnlyRootFS",
        description="Whether everything except the mounts is read-only.",
    )
    mounts: Annotated[tuple[Mount, ...], Field(strict=False, max_length=MAX_MOUNTS)] = Field(
        default=(), description="Folders of the node to mount in addition to the job's directory."
    )

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        reason = "needs both username and password, or neither"
        if self.password and self.username is None:
            raise RuleError(reason, key="password")
        if self.username and not self.password:
            raise RuleError(reason, key="username")
        return self
