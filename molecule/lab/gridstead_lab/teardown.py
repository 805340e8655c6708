# SPDX-License-Identifier: Apache-2.0
"""Removing a lab: everything that carries its prefix, in the order in which it can go.

Processes first, then what they held: cgroups, cables, mounts, folders. Each step looks at what is
there and may be repeated, so a run that was killed is finished by the next one.
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
    """End the programs that drive a lab from outside: up, Ansible, ssh masters, builds.

    Raises:
        LabError: If one is still there after 10 s.
    """
    if not processes.kill_all(lambda pid: _is_driver(names, pid), seconds=KILL_S):
        message = "could not stop the programs that drive the lab"
        raise LabError(message)


def tear_down(names: Names) -> bool:
    """Remove all objects of a lab; return whether there was anything."""
    # First: a lab half removed must not look complete to the next up.
    (names.state / "state.json").unlink(missing_ok=True)
    found = _stop_hosts(names)
    groups = cgroups.folders_of(names.prefix)
    gone = processes.wait_gone(lambda: bool(cgroups.remove(groups)), seconds=KILL_S)
    found = found or bool(groups) or bool(network.interfaces(names.prefix))
    network.remove(names.prefix)
    builds = list((STORE / "images").glob(f".build-{names.prefix}-*"))
    leftovers = list(NSPAWN_LEFTOVERS.glob(f"{names.prefix}-*"))
    for folder in [names.run, *builds, *leftovers]:
        found = found or folder.exists()
        host.unmount_below(folder)
        host.remove_folder(folder)
    found = found or names.state.exists()
    if names.state.exists():
        shutil.rmtree(names.state)
    with contextlib.suppress(OSError):  # other labs, or never made
        names.state.parent.rmdir()
    if not gone:
        message = f"could not remove cgroups of {names.prefix}"
        raise LabError(message)
    return found


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
    """Return whether a process works for the lab from outside: up, ansible, ssh masters, builds."""
    if processes.is_nspawn_of(pid, names.run / "hosts"):
        return False
    return processes.is_marked(pid, names.mark) or processes.is_ssh_master_of(pid, names.sockets)


def _is_inside(names: Names, pid: int) -> bool:
    """Return whether a process runs in a host, or is what runs the host."""
    return processes.is_nspawn_of(pid, names.run / "hosts") or processes.is_in_cgroup_of(
        pid, names.prefix
    )
