# SPDX-License-Identifier: Apache-2.0
"""Settings of the CVMFS client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from gridstead.config.tables import Service
from gridstead.config.values import PositiveInt, Settings, Url
from gridstead_cvmfs.config.replica import NAME, check_names

HttpUrl = Annotated[Url, Field(pattern=r"^https?://")]


class MountedRepository(Settings):
    """A repository that can be mounted."""

    name: Annotated[
        str,
        Field(
            pattern=NAME,
            max_length=255,
            description="Name of the repository, with a domain.",
            examples=["software.example.org"],
        ),
    ]
    urls: Annotated[
        tuple[HttpUrl, ...],
        Field(
            min_length=1,
            description="URLs of the repository, in the order in which they are tried.",
            examples=[["http://infra:8000/cvmfs/software.example.org"]],
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


class CvmfsClientSettings(Service):
    """gridstead cvmfs mount."""

    repositories: Annotated[
        tuple[MountedRepository, ...],
        Field(min_length=1, description="The repositories to mount."),
        AfterValidator(check_names),
    ]
    user: Annotated[
        str, Field(description="User of the process that fetches, checks and serves files.")
    ] = "gridstead-cvmfs"
    cache_directory: Annotated[
        Path, Field(description="Directory of the cache. Only the user may write there.")
    ] = Path("/var/cache/gridstead-cvmfs")
    cache_mib: Annotated[
        PositiveInt, Field(description="Maximum size of the cache of each repository.")
    ] = 10_240
    look_every_s: Annotated[
        PositiveInt, Field(description="Time between two checks for a new revision.")
    ] = 60
    timeout_s: Annotated[
        float,
        Field(gt=0, le=600, description="Timeout to connect, and to wait for more data."),
    ] = 5.0
    max_object_mib: Annotated[PositiveInt, Field(description="Maximum size of an object.")] = 2048
    max_catalog_mib: Annotated[
        PositiveInt, Field(description="Maximum decompressed size of a catalog.")
    ] = 1024
