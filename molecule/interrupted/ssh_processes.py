# SPDX-License-Identifier: Apache-2.0
"""Prints the processes of this host that came over ssh, but this one and what it came by. Runs on
the host.
"""

import os
import subprocess
from pathlib import Path

SSHD = Path("/sys/fs/cgroup/system.slice/ssh.service/cgroup.procs")


def parent(pid: int) -> int:
    """Return a process's parent; 0 if it is gone."""
    try:
        return int(
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
        )
    except (FileNotFoundError, ProcessLookupError):
        return 0


def ancestors(pid: int) -> set[int]:
    """Return a process and all above it."""
    found = set()
    while pid:
        found.add(pid)
        pid = parent(pid)
    return found


def main() -> None:
    """Print them."""
    mine = ancestors(os.getpid())
    others = [pid for pid in SSHD.read_text(encoding="utf-8").split() if int(pid) not in mine]
    if others:
        print(
            subprocess.run(
                ["ps", "-o", "pid=,args=", *others], capture_output=True, text=True, check=False
            ).stdout
        )


if __name__ == "__main__":
    main()
