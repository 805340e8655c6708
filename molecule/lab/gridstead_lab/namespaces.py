# SPDX-License-Identifier: Apache-2.0
"""On which CPU a host must be started, so that its own mount namespaces can be bound.

Slurm's job_container/tmpfs binds the mount namespace of each job to a file. A kernel allows that
only if the namespace is younger than the one it is bound in, and takes the greater id for the
younger. Newer kernels (seen with 6.18) give out ids per CPU, in batches: a host that was made on a
CPU with a high batch then refuses namespaces that its other CPUs make, and about every second job
is lost. A host made on the CPU with the lowest ids is older than everything in it for ever, because
ids of a CPU only grow.

As a program this file prints "<cpu> <id>" of a fresh namespace for each CPU; it needs a process of
its own.
"""

import ctypes
import fcntl
import os
import struct
import subprocess
import sys

CLONE_NEWNS = 0x20000
# _IOR(0xb7, 5, __u64), since Linux 6.10. Without it ids do not depend on the CPU.
NS_MNT_GET_ID = 0x8008B705


def launcher() -> list[str]:
    """Return the words before ``systemd-nspawn`` that start it on the right CPU; none if any will
    do.
    """
    done = subprocess.run(
        [sys.executable, "-I", __file__], capture_output=True, text=True, check=True
    )
    ids = {
        int(cpu): int(number) for cpu, number in (line.split() for line in done.stdout.splitlines())
    }
    return ["taskset", "--cpu-list", str(cpu_of_lowest(ids))] if ids else []


def payload_cpus() -> str:
    """Return all CPUs of this process, as systemd-nspawn's ``--cpu-affinity`` wants them."""
    return ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))


def cpu_of_lowest(ids: dict[int, int]) -> int:
    """Return the CPU whose fresh namespace has the lowest id; ids has at least one entry."""
    return min(ids, key=ids.__getitem__)


def _fresh_id() -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "could not make a mount namespace")
    number = bytearray(struct.calcsize("Q"))
    with open("/proc/self/ns/mnt", "rb") as namespace:  # noqa: PTH123 - no imports that a fresh process pays for
        try:
            fcntl.ioctl(namespace, NS_MNT_GET_ID, number)
        except OSError:
            return None
    return int(struct.unpack("Q", number)[0])


def main() -> None:
    """Print the id of a fresh namespace for each CPU; nothing on a kernel that does not tell."""
    for cpu in sorted(os.sched_getaffinity(0)):
        os.sched_setaffinity(0, {cpu})
        number = _fresh_id()
        if number is not None:
            print(cpu, number)


if __name__ == "__main__":
    main()
