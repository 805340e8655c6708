# SPDX-License-Identifier: Apache-2.0
"""The file of the CVMFS client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from gridstead.config.cvmfs import NAME, check_names
from gridstead.config.tables import Service
from gridstead.config.values import PositiveInt, Settings, Url

HttpUrl = Annotated[Url, Field(pattern=r"^https?://")]


class MountedRepository(Settings):
    """A repository that may be mounted."""

    name: Annotated[
        str,
        Field(
            pattern=NAME,
            max_length=255,
            description="Its name, with a domain.",
            examples=["software.example.org"],
        ),
    ]
    urls: Annotated[
        tuple[HttpUrl, ...],
        Field(
            min_length=1,
            description="Where servers have it; they are asked in this order.",
            examples=[["http://infra:8000/cvmfs/software.example.org"]],
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


class CvmfsClientSettings(Service):
    """gridstead cvmfs mount."""

    repositories: Annotated[
        tuple[MountedRepository, ...],
        Field(min_length=1, description="A table `[[repositories]]` for each."),
        AfterValidator(check_names),
    ]
    user: Annotated[
        str, Field(description="Who fetches, checks and serves, once root has mounted.")
    ] = "gridstead-cvmfs"
    cache_directory: Annotated[
        Path, Field(description="Where what was read is kept; the user's own.")
    ] = Path("/var/cache/gridstead-cvmfs")
    cache_mib: Annotated[
        PositiveInt, Field(description="What is kept of each repository, at most, MiB.")
    ] = 10_240
    look_every_s: Annotated[
        PositiveInt, Field(description="Seconds from one look for a new revision to the next.")
    ] = 60
    timeout_s: Annotated[
        float,
        Field(gt=0, le=600, description="Seconds to connect, and between two pieces of an answer."),
    ] = 5.0
    max_object_mib: Annotated[
        PositiveInt, Field(description="How large an object may be, MiB.")
    ] = 2048
    max_catalog_mib: Annotated[
        PositiveInt, Field(description="How large a catalog may be, unpacked, MiB.")
    ] = 1024
