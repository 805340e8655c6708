# SPDX-License-Identifier: Apache-2.0
"""The file of the CVMFS replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Protocol, TypeVar

from pydantic import AfterValidator, Field

from gridstead.config.tables import Service, Tls
from gridstead.config.values import Endpoint, NaturalInt, Network, PositiveInt, Settings, Url

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+$"


class Repository(Settings):
    """A repository of which a replica is kept."""

    name: Annotated[
        str,
        Field(
            pattern=NAME,
            max_length=255,
            description="Its name, with a domain.",
            examples=["software.example.org"],
        ),
    ]
    url: Annotated[
        Url,
        Field(
            pattern=r"^https?://",
            description="Where its Stratum 0 serves it.",
            examples=["http://stratum0.example.org/cvmfs/software.example.org"],
        ),
    ]
    public_key_files: Annotated[
        tuple[Path, ...],
        Field(
            min_length=1,
            description="PEM of its master public keys; one that signed its whitelist suffices.",
            examples=[["/etc/gridstead/cvmfs/software.example.org.pub"]],
        ),
    ]


class FetchSettings(Settings):
    """How a Stratum 0 is asked, and what its answers may cost."""

    workers: Annotated[
        int, Field(gt=0, le=64, description="Objects of a repository that are fetched at a time.")
    ] = 8
    timeout_s: Annotated[
        float,
        Field(gt=0, le=600, description="Seconds to connect, and between two pieces of an answer."),
    ] = 10.0
    max_object_mib: Annotated[
        PositiveInt, Field(description="How large an object may be, MiB.")
    ] = 2048
    max_catalog_mib: Annotated[
        PositiveInt, Field(description="How large a catalog may be, unpacked, MiB.")
    ] = 4096


class Named(Protocol):
    """A table with a name."""

    @property
    def name(self) -> str:
        """Return it."""
        ...


Tables = TypeVar("Tables", bound=tuple[Named, ...])


def check_names(repositories: Tables) -> Tables:
    """Return tables of which no two have one name.

    Raises:
        ValueError: Two have.
    """
    names = [one.name for one in repositories]
    if len(set(names)) < len(names):
        raise ValueError("a repository stands there twice")
    return repositories


class CvmfsSettings(Service):
    """gridstead cvmfs."""

    repositories: Annotated[
        tuple[Repository, ...],
        Field(min_length=1, description="A table `[[repositories]]` for each."),
        AfterValidator(check_names),
    ]
    storage_directory: Annotated[Path, Field(description="Where replicas are kept.")] = Path(
        "/srv/cvmfs"
    )
    min_free_mib: Annotated[
        NaturalInt, Field(description="What is left free on its disk, MiB.")
    ] = 1024
    snapshot_every_s: Annotated[
        PositiveInt, Field(description="Seconds from one pull to the next.")
    ] = 900
    keep_superseded_days: Annotated[
        NaturalInt, Field(description="Days that a revision is kept after another took its place.")
    ] = 3
    collect_every_hours: Annotated[
        PositiveInt, Field(description="Hours from one removal of old objects to the next.")
    ] = 24
    fetch: FetchSettings = FetchSettings()
    listen: Annotated[Endpoint, Field(description="host:port for CVMFS clients.")] = "0.0.0.0:8000"
    tls: Annotated[
        Tls | None, Field(description="Absent: plain HTTP, as clients and caches expect.")
    ] = None
    metrics_for: Annotated[
        tuple[Network, ...], Field(description="Networks that may read `/metrics`.")
    ] = (
        "127.0.0.0/8",
        "::1/128",
    )
