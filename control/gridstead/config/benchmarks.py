# SPDX-License-Identifier: Apache-2.0
"""The settings of the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gridstead.config.tables import Service
from gridstead.config.values import PositiveInt, Settings, check_endpoint


def _check_internet(option: str) -> str:
    if option in {"off", "librespeed"}:
        return option
    try:
        return check_endpoint(option)
    except ValueError as error:
        raise ValueError("must be off, librespeed, or host:port of an iperf3 server") from error


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


class NetworkSettings(Settings):
    """How MPI sends the messages between nodes whose speed is measured."""

    single_node: Annotated[
        bool,
        Field(
            description="Measure nothing between nodes, and shared directories on one node only. "
            "For sites without a fast network."
        ),
    ] = False
    ucx: Annotated[
        Literal["auto", "on", "off"],
        Field(
            description="Whether MPI uses UCX, for RDMA. Otherwise it uses TCP. With `auto`, UCX "
            "is used if all nodes have an active RDMA port."
        ),
    ] = "auto"
    affinities: Annotated[
        dict[str, str],
        Field(
            description="Network devices of UCX (`UCX_NET_DEVICES`) by the name of the node. "
            "`default` is for all other nodes. UCX selects the devices of a node without a value.",
            examples=[{"default": "mlx5_0:1", "compute3": "mlx5_1:1"}],
        ),
    ] = {}  # noqa: RUF012 - pydantic copies it
    transport: Annotated[
        str,
        Field(
            description="Transports of UCX (`UCX_TLS`). If it is empty, UCX selects them.",
            examples=["rc,self"],
        ),
    ] = ""


class BenchmarksSettings(Service):
    """The settings of gridstead benchmarks."""

    partition: Annotated[
        str,
        Field(
            description="Partition of the benchmarks' Slurm jobs. All its nodes on which Slurm "
            "starts jobs are measured.",
            examples=["benchmarks"],
        ),
    ]
    reservation: Annotated[
        str,
        Field(
            description="Reservation of the Slurm jobs. Only its nodes are measured, for example "
            "repaired nodes in a maintenance reservation. The labels of such a run are not "
            "published.",
            examples=["repaired"],
        ),
    ] = ""
    unresponsive: Annotated[
        bool,
        Field(
            description="Also submit a short job for each node of the partition, including nodes "
            "that Slurm reports as drained, down or not responding. Nodes whose jobs do not start "
            "are reported."
        ),
    ] = False
    start_limit_s: Annotated[
        PositiveInt,
        Field(
            description="How long a Slurm job may wait until it starts, in addition to the limits "
            "of the jobs before it. Then it is cancelled.",
        ),
    ] = 600
    quiet_limit_s: Annotated[
        PositiveInt,
        Field(
            description="How long the benchmarks of messages, shared directories and the Internet "
            "wait until no node of the cluster runs a job. Then they are left out.",
        ),
    ] = 1800
    mode: Annotated[
        Literal["lab", "quick", "full"],
        Field(
            description="How long the benchmarks may take: in `quick` at most 5 minutes on one "
            "node and 20 minutes on 100 nodes, in `full` 4 hours for one benchmark. `lab` has "
            "small sizes, which are only for tests."
        ),
    ] = "quick"
    directories: MeasuredDirectories = MeasuredDirectories()
    network: NetworkSettings = NetworkSettings()
    gpu_command: Annotated[
        str,
        Field(
            description="Command line that runs HPL-AI on the GPUs of one node and prints its "
            "output. It runs once for each GPU, as one MPI program. `GRIDSTEAD_GPUS` is the number "
            "of GPUs. If it is empty, only the models of the GPUs are read.",
            examples=["/opt/hpl-ai/run.sh"],
        ),
    ] = ""
    internet: Annotated[
        str,
        AfterValidator(_check_internet),
        Field(
            description="What measures the bandwidth of the Internet on one node: `off`, "
            "`librespeed` (librespeed-cli), or `host:port` of an iperf3 server.",
            examples=["iperf.example.net:5201"],
        ),
    ] = "off"
    program_directories: Annotated[
        list[Path],
        Field(
            description="Directories on the nodes in which programs are searched first. The OSU "
            "micro-benchmarks (`osu_latency`, `osu_bw`, `osu_alltoall`) are used if all nodes "
            "have them.",
            examples=[["/opt/osu/libexec"]],
        ),
    ] = []  # noqa: RUF012 - pydantic copies it
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
