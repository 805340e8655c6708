# SPDX-License-Identifier: Apache-2.0
"""The cgroup recipe over the mount tables of both kinds of machine.

The recipe for a unified machine is tested here only: no test runs it.
"""

from pathlib import Path

import pytest

from gridstead_lab import cgroups
from gridstead_lab.errors import LabError
from gridstead_lab.topology import Host

# Written as proc_pid_mountinfo(5) describes it.
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
MACHINE = cgroups.Machine(cpus="0-1", mems="0", counts_swap=True)
NODE = Host(name="compute1", groups=("compute",), memory_mb=512, cores=1.5, job_cgroups=True)
PLAIN = Host(name="db", groups=(), memory_mb=512, cores=1)


def _recipe(mountinfo, host):
    return cgroups.recipe(cgroups.hierarchies(mountinfo), MACHINE, "gs12ab", host)


def test_a_machine_without_cgroup2_is_refused():
    v1_only = "\n".join(line for line in HYBRID.splitlines() if "cgroup2" not in line)

    with pytest.raises(LabError, match="no cgroup2 tree"):
        _recipe(v1_only, PLAIN)


def test_a_hybrid_machine_without_a_controller_jobs_need_is_refused_by_its_name():
    lacking = "\n".join(line for line in HYBRID.splitlines() if "freezer" not in line)

    with pytest.raises(LabError, match="controller freezer"):
        _recipe(lacking, PLAIN)


def test_a_hybrid_machine_takes_the_v1_recipe_with_memory_swap_and_core_limits():
    found = _recipe(HYBRID, NODE)
    writes = {str(file): text for file, text in found.writes}

    assert found.version == "v1"
    assert found.launcher == ()
    assert writes["/sys/fs/cgroup/memory/gs12ab/compute1/memory.limit_in_bytes"] == str(512 * 2**20)
    assert writes["/sys/fs/cgroup/memory/gs12ab/compute1/memory.memsw.limit_in_bytes"] == str(
        512 * 2**20
    )
    assert writes["/sys/fs/cgroup/cpu,cpuacct/gs12ab/compute1/cpu.cfs_quota_us"] == "150000"
    assert writes["/sys/fs/cgroup/cpuset/gs12ab/cpuset.cpus"] == "0-1"


def test_folders_come_parents_first_and_every_tree_is_joined_once():
    found = _recipe(HYBRID, NODE)

    assert all(folder.parent in found.folders[:index] or folder.name == "gs12ab"
               for index, folder in enumerate(found.folders))  # fmt: skip
    assert len(found.join) == len(set(found.join)) == 8
    assert Path("/sys/fs/cgroup/unified/gs12ab/compute1") in found.join
    assert Path("/sys/fs/cgroup/systemd/gs12ab/compute1") in found.join


def test_the_cpuset_is_filled_from_the_top_before_a_process_joins():
    files = [file for file, _ in _recipe(HYBRID, NODE).writes if file.name.startswith("cpuset.")]

    assert [file.parent.name for file in files] == ["gs12ab", "gs12ab", "compute1", "compute1"]


def test_a_compute_node_sees_its_six_controllers_and_others_see_none():
    node, plain = _recipe(HYBRID, NODE), _recipe(HYBRID, PLAIN)

    assert {str(inside) for _, inside in node.binds} == {
        f"/cgv1/{name}" for name in ("memory", "cpuset", "freezer", "devices", "cpuacct", "cpu")
    }
    assert plain.binds == ()


def test_a_machine_that_does_not_count_swap_gets_no_swap_limit():
    machine = cgroups.Machine(cpus="0", mems="0", counts_swap=False)

    found = cgroups.recipe(cgroups.hierarchies(HYBRID), machine, "gs12ab", NODE)

    assert not any("memsw" in file.name for file, _ in found.writes)


def test_a_unified_machine_takes_a_delegated_scope_with_the_limits():
    found = _recipe(UNIFIED, NODE)

    assert found.version == "v2"
    assert (found.folders, found.writes, found.join, found.binds) == ((), (), (), ())
    assert found.launcher[:2] == ("systemd-run", "--scope")
    assert {"--slice=gs12ab.slice", "--unit=gs12ab-compute1", "--property=Delegate=yes",
            "--property=MemoryMax=512M", "--property=CPUQuota=150%"} <= set(found.launcher)  # fmt: skip
