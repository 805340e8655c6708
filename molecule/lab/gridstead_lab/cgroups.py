# SPDX-License-Identifier: Apache-2.0
"""Memory and core limits of hosts: what to do is decided by one pure function, then done.

Each host gets a cgroup of its own in every hierarchy; without one, all containers of the machine
would share ``/payload`` and could stop each other's services.

Hybrid machine (v1 controllers beside a cgroup2 tree): folders ``<prefix>/<host>`` in each
hierarchy, limits by the v1 controllers. Hosts with ``job_cgroups`` see their own v1 folders at
``/cgv1/<controller>``, where Slurm's cgroup/v1 plugin makes its jobs' cgroups, inside the limit.

Unified machine (cgroup2 only): systemd makes a delegated scope per host, with the limits as its
properties. This branch is tested as a function only; it has not been run.

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
    """What is mounted: controller -> v1 mount point, systemd's named tree, the cgroup2 tree."""

    v1: tuple[tuple[str, Path], ...]
    systemd: Path | None
    unified: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one host gets its limits.

    Shape: folders in order of creation, parents first; writes are (file, text) in order;
    the host's first process joins each of ``join``; binds are (outside, inside).
    launcher: words in front of the command that boots the host.
    """

    version: str
    folders: tuple[Path, ...] = ()
    writes: tuple[tuple[Path, str], ...] = ()
    join: tuple[Path, ...] = ()
    binds: tuple[tuple[Path, Path], ...] = ()
    launcher: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the recipe must know of the machine: all CPUs, memory nodes, whether v1 counts swap."""

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
    known = (*JOB_CONTROLLERS, "pids")
    found = tuple((name, v1[name]) for name in known if name in v1)
    return Hierarchies(v1=found, systemd=systemd, unified=unified)


def recipe(trees: Hierarchies, machine: Machine, prefix: str, host: Host) -> Recipe:
    """Return how a host gets its limits on a machine with these cgroup trees.

    Raises:
        LabError: If nothing is mounted that can limit memory, or no cgroup2 tree for systemd.
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
    limit = str(host.memory_mb * 2**20)
    writes = [
        (folder / file, text)
        for folder in (own["cpuset"].parent, own["cpuset"])
        for file, text in (("cpuset.cpus", machine.cpus), ("cpuset.mems", machine.mems))
    ]
    writes.append((own["memory"] / "memory.limit_in_bytes", limit))
    if machine.counts_swap:
        writes.append((own["memory"] / "memory.memsw.limit_in_bytes", limit))
    writes.append((own["cpu"] / "cpu.cfs_period_us", str(PERIOD_US)))
    writes.append((own["cpu"] / "cpu.cfs_quota_us", str(int(host.cores * PERIOD_US))))
    if "pids" in own:
        writes.append((own["pids"] / "pids.max", str(MAX_PIDS)))
    binds = tuple((own[name], Path("/cgv1") / name) for name in JOB_CONTROLLERS)
    return Recipe(
        version="v1",
        folders=tuple(folder for p in points for folder in (p / prefix, p / prefix / host.name)),
        writes=tuple(writes),
        join=tuple(point / prefix / host.name for point in points),
        binds=binds if host.job_cgroups else (),
    )


def _unified(prefix: str, host: Host) -> Recipe:
    properties = (
        "Delegate=yes",
        f"MemoryMax={host.memory_mb}M",
        "MemorySwapMax=0",
        f"CPUQuota={round(host.cores * 100)}%",
        f"TasksMax={MAX_PIDS}",
    )
    return Recipe(
        version="v2",
        launcher=(
            "systemd-run", "--scope", "--quiet", "--collect",
            f"--slice={prefix}.slice", f"--unit={prefix}-{host.name}",
            *(f"--property={item}" for item in properties),
        ),
    )  # fmt: skip


def look() -> tuple[Hierarchies, Machine]:
    """Return this machine's cgroup trees and what a recipe must know of it."""
    trees = hierarchies(Path("/proc/self/mountinfo").read_text())
    v1 = dict(trees.v1)
    cpuset, memory = v1.get("cpuset"), v1.get("memory")
    return trees, Machine(
        cpus=(cpuset / "cpuset.cpus").read_text().strip() if cpuset else "",
        mems=(cpuset / "cpuset.mems").read_text().strip() if cpuset else "",
        counts_swap=bool(memory and (memory / "memory.memsw.limit_in_bytes").exists()),
    )


def prepare(plan: Recipe) -> None:
    """Make the folders and write the limits; again is harmless."""
    for folder in plan.folders:
        folder.mkdir(exist_ok=True)
    for file, text in plan.writes:
        file.write_text(text)


def folders_of(prefix: str) -> list[Path]:
    """Return the lab's cgroup folders that exist, one per hierarchy."""
    trees = hierarchies(Path("/proc/self/mountinfo").read_text())
    points = {point for _, point in trees.v1} | {trees.systemd, trees.unified}
    places = [point / name for point in points if point for name in (prefix, f"{prefix}.slice")]
    return sorted(place for place in places if place.is_dir())


def memory_used_mb(prefix: str, host: str) -> int | None:
    """Return the memory a host's cgroup is charged with, page cache included; units MiB."""
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
