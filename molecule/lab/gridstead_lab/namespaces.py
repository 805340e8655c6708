# SPDX-License-Identifier: Apache-2.0
"""Choose the CPU on which a host is started, so that its own mount namespaces can be bound.

Slurm's job_container/tmpfs binds the mount namespace of each job to a file. The kernel allows this
only if the job's namespace is younger than the namespace that contains the file, and it treats the
namespace with the greater id as the younger one. Newer kernels (observed with 6.18) assign ids per
CPU, in batches. If a host was created on a CPU with a high batch, the kernel refuses the namespaces
that the host creates on other CPUs, and about half of its jobs fail. A host created on the CPU with
the lowest ids remains older than all namespaces in it, because the ids of a CPU only grow.

Run as a program, this file prints "<cpu> <id>" of a new namespace for each CPU. It needs a separate
process, because it leaves its own namespace.
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
    """Return the words before ``systemd-nspawn`` that start it on the right CPU.

    The list is empty if every CPU is right.
    """
    done = subprocess.run(
        [sys.executable, "-I", __file__], capture_output=True, text=True, check=True
    )
    ids = {}
    for line in done.stdout.splitlines():
        cpu, number = line.split()
        ids[int(cpu)] = int(number)
    return ["taskset", "--cpu-list", str(cpu_of_lowest(ids))] if ids else []


def payload_cpus() -> str:
    """Return all CPUs of this process, in the form of systemd-nspawn's ``--cpu-affinity``."""
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


def cpu_of_lowest(ids: dict[int, int]) -> int:
    """Return the CPU whose new namespace has the lowest id; ``ids`` is not empty."""
    return min(ids, key=ids.__getitem__)


def _fresh_id() -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "could not create a mount namespace")
    number = bytearray(struct.calcsize("Q"))
    # pathlib would slow the start of this short program.
    with open("/proc/self/ns/mnt", "rb") as namespace:  # noqa: PTH123
        try:
            fcntl.ioctl(namespace, NS_MNT_GET_ID, number)
        except OSError:
            return None
    return int(struct.unpack("Q", number)[0])


def main() -> None:
    """Print the id of a new namespace for each CPU; nothing if the kernel does not report ids."""
    for cpu in sorted(os.sched_getaffinity(0)):
        os.sched_setaffinity(0, {cpu})
        number = _fresh_id()
        if number is not None:
            print(cpu, number)


if __name__ == "__main__":
    main()
