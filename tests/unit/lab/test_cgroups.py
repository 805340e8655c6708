# SPDX-License-Identifier: Apache-2.0
"""The cgroup setup for mount tables of hybrid and unified machines.

A setup lists the cgroups of a host of the lab, with their limits. A hybrid machine has trees of
cgroup v1 and one tree of cgroup v2. A unified machine has only the tree of cgroup v2.

The setup for a unified machine is tested only in this file. No test starts hosts with it.
"""

from pathlib import Path

import pytest

from gridstead_lab import cgroups
from gridstead_lab.errors import LabError
from gridstead_lab.topology import Host

# The format is described in proc_pid_mountinfo(5).
HYBRID = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
UNIFIED = """\
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec shared:4 - cgroup2 cgroup2 rw,nsdelegate
"""
MEMORY = Path("/sys/fs/cgroup/memory/gs12ab/compute1")
MACHINE = cgroups.Machine(cpus="0-1", mems="0", counts_swap=True)
CONTROLLER_MOUNTS = {
    "/cgv1/cpu",
    "/cgv1/cpuacct",
    "/cgv1/cpuset",
    "/cgv1/devices",
    "/cgv1/freezer",
    "/cgv1/memory",
}
COMPUTE_NODE = Host(
    name="compute1", groups=("compute",), memory_mb=512, cores=1.5, job_cgroups=True
)
PLAIN_HOST = Host(name="db", groups=(), memory_mb=512, cores=1)


def _setup(mountinfo, host):
    return cgroups.setup_of(cgroups.hierarchies(mountinfo), MACHINE, "gs12ab", host)


def _without(mountinfo, word):
    """Return a mount table without the lines that contain a word."""
    lines = [line for line in mountinfo.splitlines() if word not in line]
    return "\n".join(lines)


def test_a_machine_without_cgroup2_is_refused():
    without_cgroup2 = _without(HYBRID, "cgroup2")

    with pytest.raises(LabError, match="no cgroup2 tree"):
        _setup(without_cgroup2, PLAIN_HOST)


def test_a_hybrid_machine_without_a_required_controller_is_refused():
    without_freezer = _without(HYBRID, "freezer")

    with pytest.raises(LabError, match="controller freezer"):
        _setup(without_freezer, PLAIN_HOST)


def test_a_hybrid_machine_uses_cgroup_v1_to_limit_a_host():
    setup = _setup(HYBRID, COMPUTE_NODE)
    writes = dict(setup.writes)
    cgroup = Path("/sys/fs/cgroup")

    assert setup.version == "v1"
    assert setup.launcher == ()
    assert writes[MEMORY / "memory.limit_in_bytes"] == str(512 * 2**20)
    assert writes[MEMORY / "memory.memsw.limit_in_bytes"] == str(512 * 2**20)
    assert writes[cgroup / "cpu,cpuacct/gs12ab/compute1/cpu.cfs_quota_us"] == "150000"
    assert writes[cgroup / "cpuset/gs12ab/cpuset.cpus"] == "0-1"


def test_parents_are_created_first_and_every_tree_is_joined_once():
    setup = _setup(HYBRID, COMPUTE_NODE)

    for index, folder in enumerate(setup.folders):
        if folder.name != "gs12ab":
            assert folder.parent in setup.folders[:index]
    # HYBRID has eight cgroup trees.
    assert len(setup.join) == 8
    assert len(set(setup.join)) == 8
    assert Path("/sys/fs/cgroup/unified/gs12ab/compute1") in setup.join
    assert Path("/sys/fs/cgroup/systemd/gs12ab/compute1") in setup.join


def test_cpusets_are_written_from_the_top():
    writes = _setup(HYBRID, COMPUTE_NODE).writes

    cgroup_names = [file.parent.name for file, _ in writes if file.name.startswith("cpuset.")]
    assert cgroup_names == ["gs12ab", "gs12ab", "compute1", "compute1"]


def test_only_a_compute_node_has_the_six_controllers_mounted():
    node_setup, plain_setup = _setup(HYBRID, COMPUTE_NODE), _setup(HYBRID, PLAIN_HOST)

    mount_points = {str(path_on_host) for _, path_on_host in node_setup.binds}
    assert mount_points == CONTROLLER_MOUNTS
    assert plain_setup.binds == ()


def test_a_machine_without_swap_accounting_gets_no_swap_limit():
    machine = cgroups.Machine(cpus="0", mems="0", counts_swap=False)

    setup = cgroups.setup_of(cgroups.hierarchies(HYBRID), machine, "gs12ab", COMPUTE_NODE)

    assert "memsw" not in str(setup.writes)


def test_a_unified_machine_uses_a_delegated_scope_with_the_limits():
    setup = _setup(UNIFIED, COMPUTE_NODE)

    assert setup.version == "v2"
    assert (setup.folders, setup.writes, setup.join, setup.binds) == ((), (), (), ())
    assert setup.launcher[:2] == ("systemd-run", "--scope")
    options = {"--slice=gs12ab.slice", "--unit=gs12ab-compute1", "--property=Delegate=yes"}
    options |= {"--property=MemoryMax=512M", "--property=CPUQuota=150%"}
    assert options <= set(setup.launcher)
