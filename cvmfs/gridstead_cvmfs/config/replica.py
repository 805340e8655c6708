# SPDX-License-Identifier: Apache-2.0
"""Settings of the CVMFS replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Protocol, TypeVar

from pydantic import AfterValidator, Field

from gridstead.config.tables import Service, Tls
from gridstead.config.values import Endpoint, NaturalInt, Network, PositiveInt, Settings, Url

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+$"


class Repository(Settings):
    """A repository to replicate."""

    name: Annotated[
        str,
        Field(
            pattern=NAME,
            max_length=255,
            description="Name of the repository, with a domain.",
            examples=["software.example.org"],
        ),
    ]
    url: Annotated[
        Url,
        Field(
            pattern=r"^https?://",
            description="URL of the repository on its Stratum 0.",
            examples=["http://stratum0.example.org/cvmfs/software.example.org"],
        ),
    ]
    public_key_files: Annotated[
        tuple[Path, ...],
        Field(
            min_length=1,
            description=(
                "PEM files with the repository's master public keys. One key must have signed the"
                " whitelist."
            ),
            examples=[["/etc/gridstead/cvmfs/software.example.org.pub"]],
        ),
    ]


class FetchSettings(Settings):
    """How objects are fetched from a Stratum 0, and the limits of the Stratum 0's answers."""

    workers: Annotated[
        int, Field(gt=0, le=64, description="Simultaneous fetches for one repository.")
    ] = 8
    timeout_s: Annotated[
        float,
        Field(gt=0, le=600, description="Timeout to connect, and to wait for more data."),
    ] = 10.0
    max_object_mib: Annotated[PositiveInt, Field(description="Maximum size of an object.")] = 2048
    max_catalog_mib: Annotated[
        PositiveInt, Field(description="Maximum decompressed size of a catalog.")
    ] = 4096


class NamedRepository(Protocol):
    """A table of a repository."""

    @property
    def name(self) -> str:
        """Return the name of the repository."""
        ...


Tables = TypeVar("Tables", bound=tuple[NamedRepository, ...])


def check_names(repositories: Tables) -> Tables:
    """Return the tables if their names are unique.

    Raises:
        ValueError: If two tables have the same name.
    """
    names = [repository.name for repository in repositories]
    if len(set(names)) < len(names):
        raise ValueError("two tables have the same name")
    return repositories


class CvmfsSettings(Service):
    """gridstead cvmfs."""

    repositories: Annotated[
        tuple[Repository, ...],
        Field(min_length=1, description="The repositories to replicate."),
        AfterValidator(check_names),
    ]
    storage_directory: Annotated[Path, Field(description="Directory of the replicas.")] = Path(
        "/srv/cvmfs"
    )
    min_free_mib: Annotated[
        NaturalInt, Field(description="Space that a pull leaves free on the disk.")
    ] = 1024
    snapshot_every_s: Annotated[PositiveInt, Field(description="Time between two pulls.")] = 900
    keep_superseded_days: Annotated[
        NaturalInt,
        Field(description="Time for which a revision is kept after a newer one has replaced it."),
    ] = 3
    collect_every_hours: Annotated[
        PositiveInt, Field(description="Time between two removals of old objects.")
    ] = 24
    fetch: FetchSettings = FetchSettings()
    listen: Annotated[Endpoint, Field(description="Address to listen on for CVMFS clients.")] = (
        "0.0.0.0:8000"
    )
    tls: Annotated[
        Tls | None,
        Field(
            description="Certificate. Without it the service uses plain HTTP, as clients and "
            "caches expect."
        ),
    ] = None
    metrics_for: Annotated[
        tuple[Network, ...], Field(description="Networks that may read `/metrics`.")
    ] = (
        "127.0.0.0/8",
        "::1/128",
    )
