# SPDX-License-Identifier: Apache-2.0
"""Test that check mode on a new host predicts the changes of the following run."""

import os
import re
from pathlib import Path

HEAD = r"(?P<kind>PLAY|TASK|RUNNING HANDLER) \[(?:gridstead\.site\.)?(?P<name>.*)\] \*"
CHANGED = r"changed: \[(?P<host>[\w-]+)"
LINE = re.compile(rf"p=(?P<run>\d+) .*\| (?:{HEAD}|{CHANGED})")
# On a new host check mode predicts these tasks of these roles. Their other tasks need the programs
# that these tasks install.
INSTALLS = {
    "container_runtime : Install Apptainer and the programs of job scripts",
    "database : Install MariaDB",
    "munge : Install munge",
    "shared_storage : Install the packages of the file system",
    "slurm : Install the packages of Slurm",
    "slurm_plugins : Install the packages that the plugins require",
    "sssd : Install SSSD",
    "traefik : Copy Traefik to the host",
}
# Patterns of the tasks of the other roles that check mode cannot predict on a new host, with the
# reason.
UNFORESEEN = {
    r"base : (Start the firewall and systemd-timesyncd|Reload the firewall)": (
        "nft and the units are missing"
    ),
    r"base : (Start|Stop) the timer that removes the new firewall rules": "the same",
    r"base : Restart systemd-timesyncd": "the same",
    r"pki : .*": "no CA exists yet",
    r"devnet : .*": "no server runs yet",
    r"directory : Write the (settings, the indexes and the plugins of the server|tree, .*)": (
        "the same"
    ),
    r"directory : (Write the uid range of the server|Restart the directory server)": "the same",
    r"directory : Start the daily backup of the directory": "the unit is missing",
    r"control_plane : (Install|Switch to) the new release.*": "a program must run to know",
    r"control_plane : Save the working settings and units of the release": "the same",
    r"control_plane : Create missing ssh keys": "the same",
    r"control_plane : Start the (timer of .*|services of the new release)": "the units are missing",
}
# The run does not change this task, because another role has installed the same package.
FORESEEN_TWICE = {"devnet : Install nftables"}


def runs():
    """Return the runs of site.yml, the run in check mode first.

    Each run is a set of pairs: a host and the name of a task that changed it.
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


def names_of(tasks):
    """Return the names of tasks, which are pairs of host and name."""
    return {name for _, name in tasks}


def is_predictable(task):
    """Return whether check mode must predict a task that the run changes."""
    if role(task) in {role(install) for install in INSTALLS}:
        return False
    return not any(re.fullmatch(pattern, task) for pattern in UNFORESEEN)


def test_check_mode_predicts_the_changes_of_the_run():
    check, run = runs()[:2]
    foreseen, changed = names_of(check), names_of(run)

    assert foreseen >= INSTALLS
    assert foreseen - changed == FORESEEN_TWICE
    assert [task for task in changed - foreseen if is_predictable(task)] == []
