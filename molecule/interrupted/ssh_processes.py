# SPDX-License-Identifier: Apache-2.0
"""Print the processes of this host that were started over ssh.

The output contains neither this process nor its ancestors.

killed_runs.py runs this program on the host.
"""

import os
import subprocess
from pathlib import Path

SSHD = Path("/sys/fs/cgroup/system.slice/ssh.service/cgroup.procs")


def parent(pid: int) -> int:
    """Return the parent of a process, or 0 if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # The name of the program is in parentheses. The state and the parent's pid follow it.
    _state, parent_pid, *_ = text.rpartition(")")[2].split()
    return int(parent_pid)


def ancestors(pid: int) -> set[int]:
    """Return the pids of a process and of its ancestors."""
    result = set()
    while pid:
        result.add(pid)
        pid = parent(pid)
    return result


def main() -> None:
    """Print the pid and the arguments of each process."""
    own_pids = ancestors(os.getpid())
    other_pids = [
        pid for pid in SSHD.read_text(encoding="utf-8").split() if int(pid) not in own_pids
    ]
    if other_pids:
        command = ["ps", "-o", "pid=,args=", *other_pids]
        print(subprocess.run(command, capture_output=True, text=True, check=False).stdout)


if __name__ == "__main__":
    main()
