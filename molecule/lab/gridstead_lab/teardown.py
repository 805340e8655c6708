# SPDX-License-Identifier: Apache-2.0
"""The removal of a lab: of every object with its prefix.

The first step removes the processes. The later steps remove the objects that the processes used:
cgroups, veths, mounts and folders. Each step searches for its objects and is idempotent. A new run
therefore completes a killed run.
"""

import contextlib
import shutil

from gridstead_lab import cgroups, host, network, processes
from gridstead_lab.errors import LabError
from gridstead_lab.names import STORE, Names

SHUTDOWN_TIMEOUT_S = 2.0
KILL_TIMEOUT_S = 10.0


def kill_programs_of_lab(names: Names) -> None:
    """Kill the programs outside the hosts that work on a lab: up, Ansible, ssh masters, builds.

    Raises:
        LabError: If a program still runs after 10 s.
    """
    if not processes.kill_all(lambda pid: _works_on_lab(names, pid), seconds=KILL_TIMEOUT_S):
        message = "could not stop the programs that work on the lab"
        raise LabError(message)


def tear_down(names: Names) -> bool:
    """Remove all objects of a lab. Return whether the lab had an object."""
    # A lab with a state file must be complete, so remove this file first.
    (names.state_folder / "state.json").unlink(missing_ok=True)
    existed = _stop_hosts(names)
    cgroups.stop_slice(names.prefix)
    cgroup_folders = cgroups.folders_of(names.prefix)
    cgroups_removed = processes.wait_until_false(
        lambda: bool(cgroups.remove(cgroup_folders)), seconds=KILL_TIMEOUT_S
    )
    existed = existed or bool(cgroup_folders) or bool(network.interfaces(names.prefix))
    network.remove(names.prefix)
    builds = list((STORE / "images").glob(f".build-{names.prefix}-*"))
    leftovers = host.nspawn_folders(f"{names.prefix}-*")
    for folder in [names.run_folder, *builds, *leftovers]:
        existed = existed or folder.exists()
        host.unmount_all(folder)
        host.remove_folder(folder)
    existed = existed or names.state_folder.exists()
    if names.state_folder.exists():
        shutil.rmtree(names.state_folder)
    with contextlib.suppress(OSError):  # the folder contains another lab or does not exist
        names.state_folder.parent.rmdir()
    if not cgroups_removed:
        message = f"could not remove cgroups of {names.prefix}"
        raise LabError(message)
    return existed


def _stop_hosts(names: Names) -> bool:
    running_hosts = processes.nspawns(names)
    for nspawn in running_hosts.values():
        host.power_off(names, nspawn)
    processes.wait_until_false(
        lambda: bool(processes.nspawns(names)), seconds=SHUTDOWN_TIMEOUT_S if running_hosts else 0
    )
    if not processes.kill_all(lambda pid: _is_process_of_hosts(names, pid), seconds=KILL_TIMEOUT_S):
        message = f"could not kill the processes of {names.prefix}"
        raise LabError(message)
    return bool(running_hosts)


def _works_on_lab(names: Names, pid: int) -> bool:
    """Return whether a process outside the hosts works on the lab."""
    if processes.is_nspawn_of(pid, names.run_folder / "hosts"):
        return False
    has_mark = processes.is_marked(pid, names.mark)
    return has_mark or processes.is_ssh_master_of(pid, names.ssh_socket_folder)


def _is_process_of_hosts(names: Names, pid: int) -> bool:
    """Return whether a process runs in a host of the lab or is a host's systemd-nspawn."""
    return processes.is_nspawn_of(pid, names.run_folder / "hosts") or processes.is_in_cgroup_of(
        pid, names.prefix
    )
