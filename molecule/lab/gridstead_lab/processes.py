# SPDX-License-Identifier: Apache-2.0
"""Functions that find the processes of a lab and send signals to them through pidfds.

Rule 1: A process belongs to the lab if it runs in a cgroup of the lab, is the systemd-nspawn of a
folder of the lab, is a shared ssh connection with its socket in a folder of the lab, or
has the lab's mark in its environment.
Rule 2: Before a signal, the functions open a pidfd of the process and then check rule 1 again. They
therefore never send a signal to a process that reuses a pid.
Rule 3: The functions never send a signal to this process or its ancestors.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gridstead_lab.names import Names

PROC = Path("/proc")
Predicate = Callable[[int], bool]


def pids() -> Iterator[int]:
    """Yield the pids of all processes of this machine."""
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def argv(pid: int) -> list[str]:
    """Return the arguments of a process.

    Returns one empty text for a kernel thread and for a process that has ended.
    """
    return _read(pid, "cmdline").rstrip("\0").split("\0")


def nspawn_root(pid: int, folder: Path) -> Path | None:
    """Return the root folder of the host that a systemd-nspawn process runs.

    The process can also be a shell that will execute systemd-nspawn. Returns None for any other
    process, and if the root folder is not under ``folder``.
    """
    words = argv(pid)  # read only once, because the process may end between two reads
    if not any(word.endswith("systemd-nspawn") for word in words):
        return None
    for word in words:
        if word.startswith(f"--directory={folder}/"):
            return Path(word.removeprefix("--directory="))
    return None


def is_nspawn_of(pid: int, folder: Path) -> bool:
    """Return whether a process is the systemd-nspawn of a host root under a folder."""
    return nspawn_root(pid, folder) is not None


def is_marked(pid: int, mark: str) -> bool:
    """Return whether a process was started with this entry in its environment."""
    return mark in _read(pid, "environ").split("\0")


def is_ssh_master_of(pid: int, folder: Path) -> bool:
    """Return whether a process is a shared ssh connection with its socket in a folder."""
    return argv(pid)[0].startswith(f"ssh: {folder}/")


def is_in_cgroup_of(pid: int, prefix: str) -> bool:
    """Return whether a process runs in a cgroup of the lab with this prefix."""
    for line in _read(pid, "cgroup").splitlines():
        # In a line such as "4:memory:/gs12ab/login", the top folder has the name of the lab.
        path = line.split(":", 2)[-1]
        if path.split("/")[1:2] in ([prefix], [f"{prefix}.slice"]):
            return True
    return False


def nspawns(names: Names) -> dict[str, int]:
    """Return the pid of the systemd-nspawn of each running host, by the name of the host."""
    running_hosts = {}
    for pid in pids():
        root = nspawn_root(pid, names.run_folder / "hosts")
        if root is not None:
            running_hosts[root.parent.name] = pid
    return running_hosts


def init_of(nspawn: int) -> int | None:
    """Return the pid that a container's PID 1 has on the machine. None before it has started."""
    children = _read(nspawn, f"task/{nspawn}/children").split()
    for child in map(int, children):
        for line in _read(child, "status").splitlines():
            # The line lists a pid for each namespace. The last pid is that in the container.
            if "NSpid:" in line and line.split()[-1] == "1":
                return child
    return None


def ancestors() -> set[int]:
    """Return the pids of this process and of its ancestors."""
    result, pid = set(), os.getpid()
    while pid > 0 and pid not in result:
        result.add(pid)
        # The name of the program, in parentheses, precedes the state and the parent's pid.
        fields = _read(pid, "stat").rpartition(")")[2].split()
        pid = int(fields[1]) if fields else 0
    return result


def send(pid: int, number: int, is_target: Predicate) -> bool:
    """Send a signal to a process if ``is_target`` is still true. Return whether it was sent."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not is_target(pid):
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def kill_all(is_target: Predicate, *, seconds: float) -> bool:
    """Kill every process for which ``is_target`` is true. Return whether all have ended.

    Repeats for at most ``seconds``, because new processes may start during the search.
    """
    excluded_pids = ancestors()
    deadline = time.monotonic() + seconds
    while True:
        candidates = [pid for pid in pids() if pid not in excluded_pids]
        targets = [pid for pid in candidates if is_target(pid) and not _is_zombie(pid)]
        if not targets:
            return True
        if time.monotonic() > deadline:
            return False
        for pid in targets:
            send(pid, signal.SIGKILL, is_target)
        time.sleep(0.01)


def wait_until_false(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Wait until a condition is false. Return whether it was false within ``seconds``."""
    deadline = time.monotonic() + seconds
    while condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _is_zombie(pid: int) -> bool:
    return _read(pid, "stat").rpartition(")")[2].split()[:1] == ["Z"]


def _read(pid: int, file: str) -> str:
    try:
        return (PROC / str(pid) / file).read_text(errors="replace")
    except OSError:
        return ""
