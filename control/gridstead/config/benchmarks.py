# SPDX-License-Identifier: Apache-2.0
"""The settings of the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from gridstead.config.tables import Service
from gridstead.config.values import PositiveInt, Settings


class MeasuredDirectories(Settings):
    """Directories on the nodes whose speed is measured, as the account of the benchmarks."""

    scratch: Annotated[
        Path | None,
        Field(
            description="Directory on the file system of `/mnt/scratch`, shared by all nodes.",
            examples=["/opt/cache/shared/gridstead-benchmarks"],
        ),
    ] = None
    shared_tmp: Annotated[
        Path | None,
        Field(
            description="Directory on the file system of `/opt/cache/shared`, shared by all nodes.",
            examples=["/opt/cache/shared/gridstead-benchmarks"],
        ),
    ] = None
    shared_world_tmp: Annotated[
        Path | None,
        Field(
            description="Directory that is shared by all nodes, for files that all users may read.",
            examples=["/opt/cache/world-tmp"],
        ),
    ] = None
    disk_tmp: Annotated[
        Path | None,
        Field(
            description="Directory on the disk of a node.",
            examples=["/opt/cache/disk/world-tmp"],
        ),
    ] = None
    disk_world_tmp: Annotated[
        Path | None,
        Field(
            description="Directory on the disk of a node, for files that all users may read.",
            examples=["/opt/cache/disk/world-tmp"],
        ),
    ] = None


class BenchmarksSettings(Service):
    """The settings of gridstead benchmarks."""

    partition: Annotated[
        str,
        Field(
            description="Partition of the benchmarks' Slurm jobs. All its nodes are measured.",
            examples=["benchmarks"],
        ),
    ]
    mode: Annotated[
        Literal["lab", "quick", "full"],
        Field(
            description="How long one benchmark may take: in `quick` 5 minutes, in `full` 4 hours, "
            "and in `lab` a minute. The values of `lab` are only for tests."
        ),
    ] = "quick"
    directories: MeasuredDirectories = MeasuredDirectories()
    shared_directory: Annotated[
        Path,
        Field(
            description="Directory of the account of the benchmarks, at the same path on the "
            "controller and on all nodes. Its subdirectory `gridstead-steps` is replaced."
        ),
    ] = Path("/opt/cache/shared/gridstead-benchmarks")
    jobs_at_once: Annotated[
        PositiveInt, Field(description="How many Slurm jobs are submitted at the same time.")
    ] = 64
    reframe: Annotated[Path, Field(description="The program of ReFrame.")] = Path(
        "/opt/gridstead-benchmarks/bin/reframe"
    )
    report_directory: Annotated[
        Path,
        Field(description="Directory with a JSON file for each run. The last 100 are retained."),
    ] = Path("/var/lib/gridstead/benchmarks")
    request_directory: Annotated[
        Path, Field(description="`benchmark_request_directory` of the agent. It need not exist.")
    ] = Path("/var/lib/gridstead/benchmark-requests")
    drain_slow_nodes: Annotated[
        bool,
        Field(
            description="Whether slow nodes are drained. The account of the benchmarks must be an "
            "operator of Slurm."
        ),
    ] = False
