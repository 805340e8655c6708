# SPDX-License-Identifier: Apache-2.0
"""Remove a lab: every object with its prefix, in an order that works.

The processes are removed first, then the objects that they used: cgroups, veths, mounts and
folders. Each step reads what exists and may be repeated. The next run therefore completes a killed
run.
"""

import contextlib
import shutil
from pathlib import Path

from gridstead_lab import cgroups, host, network, processes
from gridstead_lab.errors import LabError
from gridstead_lab.names import STORE, Names

GRACE_S = 2.0
KILL_S = 10.0
NSPAWN_LEFTOVERS = Path("/run/systemd/nspawn/propagate")


def stop_drivers(names: Names) -> None:
    """Kill the programs outside the hosts that work on a lab: up, Ansible, ssh masters, builds.

    Raises:
        LabError: If one of them still runs after 10 s.
    """
    if not processes.kill_all(lambda pid: _is_driver(names, pid), seconds=KILL_S):
        message = "could not stop the programs that work on the lab"
        raise LabError(message)


def tear_down(names: Names) -> bool:
    """Remove all objects of a lab; return whether there was any."""
    # The state file is removed first: a partly removed lab must not be taken for a complete one.
    (names.state / "state.json").unlink(missing_ok=True)
    existed = _stop_hosts(names)
    groups = cgroups.folders_of(names.prefix)
    gone = processes.wait_gone(lambda: bool(cgroups.remove(groups)), seconds=KILL_S)
    existed = existed or bool(groups) or bool(network.interfaces(names.prefix))
    network.remove(names.prefix)
    builds = list((STORE / "images").glob(f".build-{names.prefix}-*"))
    leftovers = list(NSPAWN_LEFTOVERS.glob(f"{names.prefix}-*"))
    for folder in [names.run, *builds, *leftovers]:
        existed = existed or folder.exists()
        host.unmount_below(folder)
        host.remove_folder(folder)
    existed = existed or names.state.exists()
    if names.state.exists():
        shutil.rmtree(names.state)
    with contextlib.suppress(OSError):  # another lab is in the folder, or it never existed
        names.state.parent.rmdir()
    if not gone:
        message = f"could not remove cgroups of {names.prefix}"
        raise LabError(message)
    return existed


def _stop_hosts(names: Names) -> bool:
    running = processes.nspawns(names)
    for nspawn in running.values():
        host.power_off(names, nspawn)
    processes.wait_gone(lambda: bool(processes.nspawns(names)), seconds=GRACE_S if running else 0)
    if not processes.kill_all(lambda pid: _is_inside(names, pid), seconds=KILL_S):
        message = f"could not kill the processes of {names.prefix}"
        raise LabError(message)
    return bool(running)


def _is_driver(names: Names, pid: int) -> bool:
    """Return whether a process outside the hosts works on the lab, see stop_drivers()."""
    if processes.is_nspawn_of(pid, names.run / "hosts"):
        return False
    return processes.is_marked(pid, names.mark) or processes.is_ssh_master_of(pid, names.sockets)


def _is_inside(names: Names, pid: int) -> bool:
    """Return whether a process runs in a host of the lab, or is the host's systemd-nspawn."""
    return processes.is_nspawn_of(pid, names.run / "hosts") or processes.is_in_cgroup_of(
        pid, names.prefix
    )
