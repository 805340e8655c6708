# SPDX-License-Identifier: Apache-2.0
"""Memory and core limits of hosts. A pure function plans the cgroups, another creates them.

Each host gets its own cgroup in every hierarchy. Without its own cgroup, all containers of the
machine would share ``/payload`` and could stop each other's services.

Hybrid machine (v1 controllers and a cgroup2 tree): each hierarchy gets a folder
``<prefix>/<host>``, and the v1 controllers enforce the limits. Hosts with ``job_cgroups`` see their
own v1 folders at ``/cgv1/<controller>``. Slurm's cgroup/v1 plugin creates the cgroups of its jobs
there, inside the limit.

Unified machine (cgroup2 only): systemd creates a delegated scope per host, with the limits as its
properties. Only the function that plans this case is tested; its result has never been run.

/proc/meminfo is not limited by a cgroup: programs in a host see the machine's memory there.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gridstead_lab.errors import LabError
from gridstead_lab.topology import Host

JOB_CONTROLLERS = ("memory", "cpuset", "freezer", "devices", "cpuacct", "cpu")
PERIOD_US = 100_000
MAX_PIDS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchies:
    """The mounted trees: controller -> v1 mount point, systemd's named tree, the cgroup2 tree."""

    v1: tuple[tuple[str, Path], ...]
    systemd: Path | None
    unified: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The steps that give one host its limits.

    Shape: ``folders`` are in order of creation, parents first. ``writes`` are (file, text), in
    order. The host's first process joins each cgroup of ``join``. ``binds`` are (outside, inside).
    ``launcher`` are the words in front of the command that boots the host.
    """

    version: str
    folders: tuple[Path, ...] = ()
    writes: tuple[tuple[Path, str], ...] = ()
    join: tuple[Path, ...] = ()
    binds: tuple[tuple[Path, Path], ...] = ()
    launcher: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The facts of a machine that a recipe needs: CPUs, memory nodes, whether v1 counts swap."""

    cpus: str
    mems: str
    counts_swap: bool


def hierarchies(mountinfo: str) -> Hierarchies:
    """Return the cgroup trees in the text of /proc/self/mountinfo."""
    v1: dict[str, Path] = {}
    systemd = unified = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) < 5 or len(rest) < 3 or not rest[0].startswith("cgroup"):
            continue
        point = Path(fields[4])
        options = rest[2].split(",")
        if rest[0] == "cgroup2":
            unified = unified or point
        elif "name=systemd" in options:
            systemd = systemd or point
        else:
            for option in options:
                v1.setdefault(option, point)
    return Hierarchies(v1=_used(v1), systemd=systemd, unified=unified)


def _used(v1: dict[str, Path]) -> tuple[tuple[str, Path], ...]:
    """Return the controllers that the lab uses, with their mount points."""
    mounted = []
    for name in (*JOB_CONTROLLERS, "pids"):
        point = v1.get(name)
        if point is not None:
            mounted.append((name, point))
    return tuple(mounted)


def recipe(trees: Hierarchies, machine: Machine, prefix: str, host: Host) -> Recipe:
    """Return the steps that give a host its limits on a machine with these cgroup trees.

    Raises:
        LabError: If no cgroup2 tree is mounted, or only some of the v1 controllers are.
    """
    if trees.unified is None:
        message = "no cgroup2 tree is mounted"
        raise LabError(message, "Hosts run systemd, which needs cgroup2 or a hybrid layout.")
    v1 = dict(trees.v1)
    if not v1:
        return _unified(prefix, host)
    missing = [name for name in JOB_CONTROLLERS if name not in v1]
    if missing:
        message = f"cgroup v1 controller {', '.join(missing)} is not mounted"
        raise LabError(message)
    return _hybrid(trees, machine, prefix, host)


def _hybrid(trees: Hierarchies, machine: Machine, prefix: str, host: Host) -> Recipe:
    v1 = dict(trees.v1)
    points = list(dict.fromkeys([*v1.values(), *filter(None, (trees.systemd, trees.unified))]))
    own = {name: point / prefix / host.name for name, point in v1.items()}
    folders, join = [], []
    for point in points:
        folders += [point / prefix, point / prefix / host.name]
        join.append(point / prefix / host.name)
    binds = tuple((own[name], Path("/cgv1") / name) for name in JOB_CONTROLLERS)
    return Recipe(
        version="v1",
        folders=tuple(folders),
        writes=tuple(_hybrid_writes(own, machine, host)),
        join=tuple(join),
        binds=binds if host.job_cgroups else (),
    )


def _hybrid_writes(own: dict[str, Path], machine: Machine, host: Host) -> list[tuple[Path, str]]:
    """Return (file, text) of a host's v1 limits; ``own`` is controller -> the host's folder."""
    writes = []
    for folder in (own["cpuset"].parent, own["cpuset"]):
        writes.append((folder / "cpuset.cpus", machine.cpus))
        writes.append((folder / "cpuset.mems", machine.mems))
    limit = str(host.memory_mb * 2**20)
    writes.append((own["memory"] / "memory.limit_in_bytes", limit))
    if machine.counts_swap:
        writes.append((own["memory"] / "memory.memsw.limit_in_bytes", limit))
    writes.append((own["cpu"] / "cpu.cfs_period_us", str(PERIOD_US)))
    writes.append((own["cpu"] / "cpu.cfs_quota_us", str(int(host.cores * PERIOD_US))))
    if "pids" in own:
        writes.append((own["pids"] / "pids.max", str(MAX_PIDS)))
    return writes


def _unified(prefix: str, host: Host) -> Recipe:
    properties = (
        "--property=Delegate=yes",
        f"--property=MemoryMax={host.memory_mb}M",
        "--property=MemorySwapMax=0",
        f"--property=CPUQuota={round(host.cores * 100)}%",
        f"--property=TasksMax={MAX_PIDS}",
    )
    return Recipe(
        version="v2",
        launcher=(
            "systemd-run", "--scope", "--quiet", "--collect",
            f"--slice={prefix}.slice", f"--unit={prefix}-{host.name}",
            *properties,
        ),
    )  # fmt: skip


def read_machine() -> tuple[Hierarchies, Machine]:
    """Return this machine's cgroup trees and the facts that a recipe needs."""
    trees = hierarchies(Path("/proc/self/mountinfo").read_text())
    v1 = dict(trees.v1)
    cpuset, memory = v1.get("cpuset"), v1.get("memory")
    return trees, Machine(
        cpus=(cpuset / "cpuset.cpus").read_text().strip() if cpuset else "",
        mems=(cpuset / "cpuset.mems").read_text().strip() if cpuset else "",
        counts_swap=bool(memory and (memory / "memory.memsw.limit_in_bytes").exists()),
    )


def prepare(plan: Recipe) -> None:
    """Create the folders and write the limits; may be repeated."""
    for folder in plan.folders:
        folder.mkdir(exist_ok=True)
    for file, text in plan.writes:
        file.write_text(text)


def folders_of(prefix: str) -> list[Path]:
    """Return the lab's cgroup folders that exist, one per hierarchy."""
    trees = hierarchies(Path("/proc/self/mountinfo").read_text())
    points = {trees.systemd, trees.unified}
    for _, point in trees.v1:
        points.add(point)
    folders = []
    for point in filter(None, points):
        folders += [point / prefix, point / f"{prefix}.slice"]
    return sorted(folder for folder in folders if folder.is_dir())


def memory_used_mb(prefix: str, host: str) -> int | None:
    """Return the memory charged to a host's cgroup, in MiB and with the page cache.

    Return None if the host has no cgroup.
    """
    for folder in folders_of(prefix):
        for file in (f"{host}/memory.usage_in_bytes", f"{prefix}-{host}.scope/memory.current"):
            if (folder / file).is_file():
                return int((folder / file).read_text()) // 2**20
    return None


def remove(folders: Iterable[Path]) -> list[Path]:
    """Remove cgroups, deepest first; return those that could not be removed yet."""
    left = []
    for folder in folders:
        for place, _, _ in os.walk(folder, topdown=False):
            try:
                Path(place).rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                left.append(Path(place))
    return left
