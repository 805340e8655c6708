# SPDX-License-Identifier: Apache-2.0
"""The kernel limit on inotify instances, which labs share with the whole machine.

The kernel counts the root users of all hosts as one user, and each systemd uses about ten inotify
instances. A second lab, or a busy machine, exceeds the usual limit of 128, and hosts then hang at
boot. The first lab raises the limit and records the old value. The last lab that goes down restores
it.
"""

from pathlib import Path

from gridstead_lab.locks import held
from gridstead_lab.names import STORE

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
NOTED = STORE / "inotify-instances"
ENOUGH = 1024
LOCK = "inotify"


def raise_limit(limit: Path = LIMIT, noted: Path = NOTED) -> None:
    """Raise the limit to ENOUGH if it is lower, after its old value is recorded."""
    with held(LOCK):
        before = int(limit.read_text())
        if before >= ENOUGH:
            return
        noted.parent.mkdir(parents=True, exist_ok=True)
        if not noted.exists():
            new = noted.with_suffix(".new")
            new.write_text(str(before))
            new.rename(noted)
        limit.write_text(str(ENOUGH))


def restore(labs: Path = STORE / "labs", limit: Path = LIMIT, noted: Path = NOTED) -> None:
    """Restore the old limit if no lab is left, unless another program changed it meanwhile."""
    with held(LOCK):
        if not noted.exists() or (labs.is_dir() and any(labs.iterdir())):
            return
        if int(limit.read_text()) == ENOUGH:
            limit.write_text(noted.read_text())
        noted.unlink()
