# SPDX-License-Identifier: Apache-2.0
"""The kernel limit on inotify instances, which labs share with the whole machine.

The kernel counts the root users of all hosts as one user, and each systemd uses about ten inotify
instances. A second lab, or a busy machine, exceeds the usual limit of 128. Hosts then hang at boot.
The first lab raises the limit and saves the old value. The last lab restores the old value.
"""

from pathlib import Path

from gridstead_lab.locks import hold_mutex
from gridstead_lab.names import STORE

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
SAVED_LIMIT = STORE / "inotify-instances"
LAB_LIMIT = 1024
LOCK = "inotify"


def raise_limit(limit: Path = LIMIT, saved: Path = SAVED_LIMIT) -> None:
    """Save the old limit and raise the limit to LAB_LIMIT. A limit above LAB_LIMIT is kept."""
    with hold_mutex(LOCK):
        old_limit = int(limit.read_text())
        if old_limit >= LAB_LIMIT:
            return
        saved.parent.mkdir(parents=True, exist_ok=True)
        if not saved.exists():
            new_file = saved.with_suffix(".new")
            new_file.write_text(str(old_limit))
            new_file.rename(saved)
        limit.write_text(str(LAB_LIMIT))


def restore(labs: Path = STORE / "labs", limit: Path = LIMIT, saved: Path = SAVED_LIMIT) -> None:
    """Restore the old limit if no lab exists and no other program has changed the limit."""
    with hold_mutex(LOCK):
        a_lab_exists = labs.is_dir() and any(labs.iterdir())
        if a_lab_exists or not saved.exists():
            return
        if int(limit.read_text()) == LAB_LIMIT:
            limit.write_text(saved.read_text())
        saved.unlink()
