# SPDX-License-Identifier: Apache-2.0
"""The interface of slurmrestd in each release of Slurm: paths, fields and error numbers.

The data is in ``slurm_releases/<release>/rest.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gridstead.errors import ConfigError
from gridstead.slurm_releases import known_releases, read_release, release_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRelease:
    """The interface of slurmrestd in one release of Slurm.

    Attributes:
        name: The release, for example 24.11.
        data_parser: The version in the paths of the URLs.
        fields: The names of slurmrestd's fields of a job, by the names that ``rest.py`` uses.
        rejection_errors: The error numbers that mean that Slurm rejected the request.
        temporary_errors: The rejections after which the same request may succeed later.
        unknown_association_error: The error number for an association that slurmctld does not
            know yet.
        already_ended_errors: The error numbers for a job that has ended or is unknown.
    """

    name: str
    data_parser: str
    fields: Mapping[str, str]
    rejection_errors: frozenset[int]
    temporary_errors: frozenset[int]
    unknown_association_error: int
    already_ended_errors: frozenset[int]


def rest_release(version: str) -> RestRelease:
    """Return the interface of an installed version, for example ``24.11.5``.

    Raises:
        ConfigError: If the release is not supported. The detail lists the supported releases.
    """
    release = release_of(version)
    supported_releases = known_releases()
    if release not in supported_releases:
        raise ConfigError(
            f"Slurm {version} is not supported",
            detail=f"supported releases: {', '.join(supported_releases)}",
            hint="Install a supported release of Slurm, or update Gridstead.",
        )
    data = read_release(release, "rest")
    errors = data["errors"]
    unknown_association = errors["unknown_association"]
    return RestRelease(
        name=release,
        data_parser=data["data_parser"],
        fields=data["job"],
        rejection_errors=_rejection_errors(errors),
        temporary_errors=frozenset([*errors["temporary"], unknown_association]),
        unknown_association_error=unknown_association,
        already_ended_errors=frozenset(errors["already_ended"]),
    )


def _rejection_errors(errors: Mapping[str, Any]) -> frozenset[int]:
    numbers: set[int] = set()
    for first, last in errors["rejections"]:
        numbers.update(range(first, last + 1))
    return frozenset(numbers)
