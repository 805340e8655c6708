# SPDX-License-Identifier: Apache-2.0
"""Memory and core limits of the lab's hosts, which are containers of one machine.

Function setup_of() plans the cgroups of a host, and prepare() creates them. Each host gets a
separate cgroup in every hierarchy, so that a host cannot stop the services of another host.
systemd-nspawn runs a container in a child of its own cgroup. The name of this child is always
``payload``, so hosts that are started in one cgroup would share it.

Hybrid machine (v1 controllers and a cgroup2 tree): each hierarchy gets a folder
``<prefix>/<host>``, and the v1 controllers enforce the limits. Hosts with ``job_cgroups`` see their
own v1 folders at ``/cgv1/<controller>``. Slurm's cgroup/v1 plugin creates the cgroups of its jobs
there, below the host's limits.

Unified machine (cgroup2 only): systemd creates a delegated scope per host, with the limits as its
properties. Tests cover the plan of this case. ``make demo`` has run on a unified machine, the tests
of the lab have not.

A cgroup does not limit /proc/meminfo: programs in a host see the machine's memory there.
"""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gridstead_lab import commands
from gridstead_lab.errors import CommandFailed, LabError
from gridstead_lab.topology import Host

JOB_CONTROLLERS = ("memory", "cpuset", "freezer", "devices", "cpuacct", "cpu")
PERIOD_US = 100_000
MAX_PIDS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchies:
    """The mounted cgroup trees.

    Attributes:
        v1: The v1 controllers with their mount points.
        systemd: The mount point of systemd's named v1 tree.
        unified: The mount point of the cgroup2 tree.
    """

    v1: tuple[tuple[str, Path], ...]
    systemd: Path | None
    unified: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupSetup:
    """The steps that set the limits of a host.

    Attributes:
        version: ``v1`` or ``v2``.
        folders: The folders in the order of their creation, parents first.
        writes: The pairs (file, text) to write, in order.
        join: The cgroups that the host's first process joins.
        binds: The bind mounts as pairs (path on the machine, path in the host).
        launcher: The words in front of the command that boots the host.
    """

    version: str
    folders: tuple[Path, ...] = ()
    writes: tuple[tuple[Path, str], ...] = ()
    join: tuple[Path, ...] = ()
    binds: tuple[tuple[Path, Path], ...] = ()
    launcher: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The facts of a machine that a setup needs.

    Attributes:
        cpus: The CPUs of the v1 cpuset controller, as in file cpuset.cpus.
        mems: The memory nodes of the v1 cpuset controller, as in file cpuset.mems.
        counts_swap: Whether the v1 memory controller limits swap.
    """

    cpus: str
    mems: str
    counts_swap: bool


def hierarchies(mountinfo: str) -> Hierarchies:
    """Return the cgroup trees in the text of /proc/self/mountinfo."""
    v1: dict[str, Path] = {}
    systemd = unified = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mount_fields, file_system_fields = before.split(), after.split()
        if len(mount_fields) < 5 or len(file_system_fields) < 3:
            continue
        mount_point = Path(mount_fields[4])
        file_system, _, option_list = file_system_fields[:3]
        if not file_system.startswith("cgroup"):
            continue
        options = option_list.split(",")
        if file_system == "cgroup2":
            unified = unified or mount_point
        elif "name=systemd" in options:
            systemd = systemd or mount_point
        else:
            # The options also contain words such as rw. _used_controllers() removes these words.
            for option in options:
                v1.setdefault(option, mount_point)
    return Hierarchies(v1=_used_controllers(v1), systemd=systemd, unified=unified)


def _used_controllers(v1: dict[str, Path]) -> tuple[tuple[str, Path], ...]:
    """Return the v1 controllers that are mounted and that the lab uses, with their mount points."""
    mounted_controllers = []
    for name in (*JOB_CONTROLLERS, "pids"):
        mount_point = v1.get(name)
        if mount_point is not None:
            mounted_controllers.append((name, mount_point))
    return tuple(mounted_controllers)


def setup_of(trees: Hierarchies, machine: Machine, prefix: str, host: Host) -> CgroupSetup:
    """Return the steps that set the limits of a host on a machine with these cgroup trees.

    Raises:
        LabError: If no cgroup2 tree is mounted, or if only some v1 controllers are mounted.
    """
    if trees.unified is None:
        message = "no cgroup2 tree is mounted"
        raise LabError(message, "Hosts run systemd, which needs cgroup2 or a hybrid layout.")
    v1 = dict(trees.v1)
    if not v1:
        return _unified_setup(prefix, host)
    missing_controllers = [name for name in JOB_CONTROLLERS if name not in v1]
    if missing_controllers:
        message = f"cgroup v1 controller {', '.join(missing_controllers)} is not mounted"
        raise LabError(message)
    return _hybrid_setup(trees, machine, prefix, host)


def _hybrid_setup(trees: Hierarchies, machine: Machine, prefix: str, host: Host) -> CgroupSetup:
    v1 = dict(trees.v1)
    host_folders = {name: mount_point / prefix / host.name for name, mount_point in v1.items()}
    folders, join = [], []
    # Several controllers can share a mount point.
    for mount_point in dict.fromkeys([*v1.values(), trees.systemd, trees.unified]):
        if mount_point is not None:
            folders += [mount_point / prefix, mount_point / prefix / host.name]
            join.append(mount_point / prefix / host.name)
    binds = []
    if host.job_cgroups:
        binds = [(host_folders[name], Path("/cgv1") / name) for name in JOB_CONTROLLERS]
    return CgroupSetup(
        version="v1",
        folders=tuple(folders),
        writes=tuple(_hybrid_writes(host_folders, machine, host)),
        join=tuple(join),
        binds=tuple(binds),
    )


def _hybrid_writes(
    host_folders: dict[str, Path], machine: Machine, host: Host
) -> list[tuple[Path, str]]:
    """Return the pairs (file, text) of a host's v1 limits.

    ``host_folders`` contains the host's folder of each controller.
    """
    writes = []
    # A new cpuset is empty and may contain only CPUs of its parent, so write to the parent first.
    for folder in (host_folders["cpuset"].parent, host_folders["cpuset"]):
        writes.append((folder / "cpuset.cpus", machine.cpus))
        writes.append((folder / "cpuset.mems", machine.mems))
    limit = str(host.memory_mb * 2**20)
    writes.append((host_folders["memory"] / "memory.limit_in_bytes", limit))
    if machine.counts_swap:
        writes.append((host_folders["memory"] / "memory.memsw.limit_in_bytes", limit))
    writes.append((host_folders["cpu"] / "cpu.cfs_period_us", str(PERIOD_US)))
    writes.append((host_folders["cpu"] / "cpu.cfs_quota_us", str(int(host.cores * PERIOD_US))))
    if "pids" in host_folders:
        writes.append((host_folders["pids"] / "pids.max", str(MAX_PIDS)))
    return writes


def _unified_setup(prefix: str, host: Host) -> CgroupSetup:
    properties = (
        "--property=Delegate=yes",
        f"--property=MemoryMax={host.memory_mb}M",
        "--property=MemorySwapMax=0",
        f"--property=CPUQuota={round(host.cores * 100)}%",
        f"--property=TasksMax={MAX_PIDS}",
    )
    return CgroupSetup(
        version="v2",
        launcher=(
            "systemd-run", "--scope", "--quiet", "--collect",
            f"--slice={prefix}.slice", f"--unit={prefix}-{host.name}",
            *properties,
        ),
    )  # fmt: skip


def read_machine() -> tuple[Hierarchies, Machine]:
    """Return this machine's cgroup trees and the facts that a setup needs."""
    trees = hierarchies(Path("/proc/self/mountinfo").read_text())
    v1 = dict(trees.v1)
    cpus = mems = ""
    if "cpuset" in v1:
        cpus = (v1["cpuset"] / "cpuset.cpus").read_text().strip()
        mems = (v1["cpuset"] / "cpuset.mems").read_text().strip()
    counts_swap = "memory" in v1 and (v1["memory"] / "memory.memsw.limit_in_bytes").exists()
    return trees, Machine(cpus=cpus, mems=mems, counts_swap=counts_swap)


def prepare(setup: CgroupSetup) -> None:
    """Create the folders and write the limits. A repeated call is allowed."""
    for folder in setup.folders:
        folder.mkdir(exist_ok=True)
    for file, text in setup.writes:
        file.write_text(text)


def folders_of(prefix: str) -> list[Path]:
    """Return the existing cgroup folders of a lab, one per hierarchy."""
    trees = hierarchies(Path("/proc/self/mountinfo").read_text())
    mount_points = {trees.systemd, trees.unified}
    for _, mount_point in trees.v1:
        mount_points.add(mount_point)
    folders = []
    for mount_point in filter(None, mount_points):
        folders += [mount_point / prefix, mount_point / f"{prefix}.slice"]
    return sorted(folder for folder in folders if folder.is_dir())


def stop_slice(prefix: str) -> None:
    """Unload the slice that systemd created for a lab's scopes. Its processes must have ended.

    Only the lab of a unified machine has a slice. systemctl fails if the slice is not loaded.
    """
    if not hierarchies(Path("/proc/self/mountinfo").read_text()).v1:
        with contextlib.suppress(CommandFailed):
            commands.run(["systemctl", "stop", f"{prefix}.slice"])


def memory_used_mb(prefix: str, host: str) -> int | None:
    """Return the memory of a host's cgroup including the page cache, in MiB.

    Returns None if the host has no cgroup.
    """
    for folder in folders_of(prefix):
        for file in (f"{host}/memory.usage_in_bytes", f"{prefix}-{host}.scope/memory.current"):
            if (folder / file).is_file():
                return int((folder / file).read_text()) // 2**20
    return None


def remove(folders: Iterable[Path]) -> list[Path]:
    """Remove cgroups, deepest first. Returns the cgroups that could not be removed yet."""
    remaining = []
    for folder in folders:
        for subfolder, _, _ in os.walk(folder, topdown=False):
            try:
                Path(subfolder).rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                remaining.append(Path(subfolder))
    return remaining
