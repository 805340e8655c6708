# SPDX-License-Identifier: Apache-2.0
"""The one limit of the kernel that labs share with the whole machine.

All hosts' root users are one user to the kernel, and each systemd holds some ten inotify instances.
A second lab, or a busy machine, exceeds the usual 128, and hosts then hang at boot. The first lab
raises the limit and notes what it was; the last one that goes down gives it back.
"""

from pathlib import Path

from gridstead_lab.locks import held
from gridstead_lab.names import STORE

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
NOTED = STORE / "inotify-instances"
ENOUGH = 1024
LOCK = "inotify"


def make_room(limit: Path = LIMIT, noted: Path = NOTED) -> None:
    """Raise the limit if it is low, once it is noted what it was."""
    with held(LOCK):
        before = int(limit.read_text())
        if before >= ENOUGH:
            return
        noted.parent.mkdir(parents=True, exist_ok=True)
        if not noted.exists():
            beside = noted.with_suffix(".new")
            beside.write_text(str(before))
            beside.rename(noted)
        limit.write_text(str(ENOUGH))


def give_back(labs: Path = STORE / "labs", limit: Path = LIMIT, noted: Path = NOTED) -> None:
    """Put the limit back to what it was if no lab is left and nobody else changed it since."""
    with held(LOCK):
        if not noted.exists() or (labs.is_dir() and any(labs.iterdir())):
            return
        if int(limit.read_text()) == ENOUGH:
            limit.write_text(noted.read_text())
        noted.unlink()
