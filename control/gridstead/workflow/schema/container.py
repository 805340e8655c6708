# SPDX-License-Identifier: Apache-2.0
"""An image that a command runs in."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from gridstead.workflow.schema.base import MAX_NAME, MAX_PATH, AbsolutePath, Model, shown_as

MAX_MOUNTS = 64

_IMAGE = r"[a-z0-9/._-]+(:[A-Za-z0-9._:-]+)?"
_REGISTRY = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"
_FOLDER = r"/[^\s:,\"\\]*"  # white space ends a mount of Enroot
_WORD = r"[!-~]+"


def _image(value: str) -> str:
    if value.startswith("/"):
        if not value.isprintable() or value.endswith("/"):
            raise ValueError("is no path of an image")
    elif not re.fullmatch(_IMAGE, value):
        raise ValueError(
            "is no image: a name in lower case with a tag, as in library/debian:12, or an absolute path"
        )
    return value


def _registry(value: str) -> str:
    if not re.fullmatch(_REGISTRY, value):
        raise ValueError("is no registry: a host's name, with a port if need be")
    return value


def _word(value: str) -> str:
    if not re.fullmatch(_WORD, value):
        raise ValueError("holds a character that names and passwords of registries do not have")
    return value


def _folder(value: str) -> str:
    if not re.fullmatch(_FOLDER, value):
        raise ValueError("holds a character that no folder to mount may have")
    return value


def _access(value: str) -> str:
    if value not in ("", "ro", "rw"):
        raise ValueError("must be ro or rw")
    return value


Word = Annotated[
    str, Field(max_length=MAX_NAME * 16), AfterValidator(_word), shown_as(pattern=f"^{_WORD}$")
]
Folder = Annotated[AbsolutePath, AfterValidator(_folder), shown_as(pattern=f"^{_FOLDER}$")]


class Mount(Model):
    """A folder of the node that a container sees."""

    host_dir: Folder = Field(description="The folder on the node.")
    container_dir: Folder = Field(description="Where the container sees it.")
    options: Annotated[str, AfterValidator(_access), shown_as(enum=["", "ro", "rw"])] = Field(
        default="", description="`ro`: only to read; `rw`, or nothing: to write too."
    )


class ContainerRun(Model):
    """What a container is made from, and what it sees.

    The job's directory is `/deepsquare` in it, and the variables of the job's directories say so.
    The runtime is Enroot where the nodes have it, Apptainer otherwise. An image is fetched once for
    all steps of a job.
    """

    image: Annotated[
        str,
        Field(max_length=MAX_PATH),
        AfterValidator(_image),
        shown_as(pattern=f"^(/.*[^/]|{_IMAGE})$"),
    ] = Field(
        description="Name with a tag, or the path of a file in the job's directory, starting with `/`."
    )
    registry: (
        Annotated[
            str,
            Field(max_length=MAX_NAME),
            AfterValidator(_registry),
            shown_as(pattern=f"^{_REGISTRY}$"),
        ]
        | None
    ) = Field(default=None, description="Where the image is; Docker Hub, if not given.")
    username: Word | None = Field(default=None, description="Name at the registry.", repr=False)
    password: Word | None = Field(
        default=None,
        description="Password there. The script does not hold it; an old supervisor cannot run the job.",
        repr=False,
    )
    apptainer: bool = Field(default=False, description="Whether it has to be Apptainer.")
    deepsquare_hosted: bool = Field(
        default=False,
        description="Whether the image lies unpacked on the provider's nodes, in `/opt/software` by registry and name. "
        "It runs in Apptainer.",
    )
    x11: bool = Field(default=False, description="Whether it sees the node's X server.")
    mount_home: bool = Field(default=False, description="Whether it sees the customer's home.")
    read_only_root_fs: bool = Field(
        default=False,
        alias="readOnlyRootFS",
        description="Whether nothing can be written outside of what it sees.",
    )
    mounts: Annotated[tuple[Mount, ...], Field(strict=False, max_length=MAX_MOUNTS)] = Field(
        default=(), description="Folders of the node that it sees too."
    )

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("needs both username and password, or neither")
        return self
