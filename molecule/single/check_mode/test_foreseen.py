# SPDX-License-Identifier: Apache-2.0
"""Check mode tells on a host on which nothing is yet what a run will change."""

import os
import re
from pathlib import Path

HEAD, CHANGED = (
    r"(?P<kind>PLAY|TASK|RUNNING HANDLER) \[(?P<name>.*)\] \*",
    r"changed: \[(?P<host>[\w-]+)",
)
LINE = re.compile(rf"p=(?P<run>\d+) .*\| (?:{HEAD}|{CHANGED})")
# Of these roles a check foretells on a bare host that they bring their programs; the rest needs
# them.
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
# Of the other roles a check on such a host cannot know of these tasks, by pattern, with the reason.
UNFORESEEN = {
    r"base : (Start the firewall and .*|Reload the firewall)": "neither nft nor the units are there",
    r"base : (Start|Stop) the timer that removes the new firewall rules": "the same",
    r"base : Restart systemd-timesyncd": "the same",
    r"pki : .*": "there is no authority to sign anything",
    r"devnet : .*": "there is no server to ask",
    r"directory : Write the (settings, indexes and plugins|uid range) of the server": "the same",
    r"directory : Write the tree, access rules and service accounts": "the same",
    r"directory : Restart the directory server": "the same",
    r"directory : Start the daily backup of the directory": "the unit is not there",
    r"control_plane : (Install|Switch to) the new release.*": "a program must run to know",
    r"control_plane : Save the working settings and units of the release": "the same",
    r"control_plane : Create missing ssh keys": "the same",
    r"control_plane : Start the (timer of .*|services of the new release)": "the units are missing",
}
# Found done, in a run, because another role needs the same package.
FORESEEN_TWICE = {"devnet : Install nftables"}


def runs():
    """Return the runs of site.yml so far, each as host and name of the tasks that changed it. The
    check comes first.
    """
    found, task = {}, {}
    for line in (
        Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "ansible.log").read_text().splitlines()
    ):
        if not (match := LINE.search(line)):
            continue
        run = match["run"]
        if match["name"] == "Check the inventory":
            found[run] = set()
        if match["kind"]:
            task[run] = match["name"]
        elif run in found:
            found[run].add((match["host"], task[run]))
    return list(found.values())


def test_a_check_foresees_what_changes():
    foreseen, changed = ({task for _, task in run} for run in runs()[:2])

    assert foreseen >= INSTALLS
    assert foreseen - changed == FORESEEN_TWICE
    roles = {task.partition(" : ")[0] for task in INSTALLS}
    missed = {task for task in changed - foreseen if task.partition(" : ")[0] not in roles}
    assert {
        task for task in missed if not any(re.fullmatch(pattern, task) for pattern in UNFORESEEN)
    } == set()
