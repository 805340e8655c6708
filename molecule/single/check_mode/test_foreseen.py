# SPDX-License-Identifier: Apache-2.0
"""Test that check mode on a new host predicts the changes of the following run."""

import os
import re
from pathlib import Path

# Lines such as "... p=4711 ... | TASK [gridstead.site.database : Install MariaDB] ***" and
# "... p=4711 ... | changed: [db]".
HEADER = r"(?P<kind>PLAY|TASK|RUNNING HANDLER) \[(?:gridstead\.site\.)?(?P<name>.*)\] \*"
CHANGED = r"changed: \[(?P<host>[\w-]+)"
LINE = re.compile(rf"p=(?P<run>\d+) .*\| (?:{HEADER}|{CHANGED})")
# Some roles install programs that later tasks of the same role need. On a new host, check mode
# predicts these installing tasks, but not the later tasks.
INSTALL_TASKS = {
    "benchmarks : Install the packages of the benchmarks",
    "container_runtime : Install Apptainer and the programs that job scripts use",
    "database : Install MariaDB",
    "munge : Install munge",
    "shared_storage : Install the packages of the file system",
    "slurm : Install the packages of Slurm",
    "slurm_plugins : Install the packages that the plugins require",
    "sssd : Install SSSD",
    "traefik : Copy Traefik to the host",
}
# Patterns of other roles' tasks that check mode cannot predict on a new host, with the reasons.
UNPREDICTABLE = {
    r"base : (Start the firewall and systemd-timesyncd|Reload the firewall)": (
        "nft and the units are missing"
    ),
    r"base : (Start|Stop) the timer that removes the new firewall rules.*": "the units are missing",
    r"base : Restart systemd-timesyncd": "the unit is missing",
    r"pki : .*": "no CA exists yet",
    r"devnet : .*": "no server runs yet",
    r"directory : Write the settings, the indexes and the plugins of the server": (
        "no server runs yet"
    ),
    r"directory : Write the directory tree, .*": "no server runs yet",
    r"directory : (Write the uid range of the server|Restart the directory server)": (
        "no server runs yet"
    ),
    r"directory : Start the daily backup of the directory": "the unit is missing",
    r"control_plane : (Install|Switch to) the new release.*": "check mode runs no programs",
    r"control_plane : Save the settings and units of the release that started successfully": (
        "check mode runs no programs"
    ),
    r"control_plane : Create missing ssh keys": "check mode runs no programs",
    r"control_plane : Start the systemd timer .*": "the units are missing",
    r"control_plane : Start the services of the new release": "the units are missing",
}
# Check mode predicts a change of this task, but in the run another role has already installed the
# package.
WRONGLY_PREDICTED = {"devnet : Install nftables"}


def runs():
    """Return the changes of each run of site.yml. The first run is in check mode.

    The changes of a run are a set of pairs: a host and the name of a task that changed it.
    """
    changes, task = {}, {}
    log = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "ansible.log").read_text()
    for line in log.splitlines():
        match = LINE.search(line)
        if match is None:
            continue
        run = match["run"]
        if match["kind"] == "PLAY" and match["name"] == "Check the inventory":
            changes[run] = set()
        if match["kind"]:
            task[run] = match["name"]
        elif run in changes:
            changes[run].add((match["host"], task[run]))
    return list(changes.values())


def role(task):
    return task.partition(" : ")[0]


def task_names(tasks):
    """Return the names of the tasks in pairs of host and task."""
    return {name for _, name in tasks}


def is_predictable(task):
    """Return whether check mode must predict a task that the run changes."""
    if role(task) in set(map(role, INSTALL_TASKS)):
        return False
    return not any(re.fullmatch(pattern, task) for pattern in UNPREDICTABLE)


def test_check_mode_predicts_the_changes_of_the_run():
    check, run = runs()[:2]
    predicted_tasks, changed_tasks = task_names(check), task_names(run)

    assert predicted_tasks >= INSTALL_TASKS
    assert predicted_tasks - changed_tasks == WRONGLY_PREDICTED
    assert [task for task in changed_tasks - predicted_tasks if is_predictable(task)] == []
