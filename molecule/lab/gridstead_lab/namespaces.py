# SPDX-License-Identifier: Apache-2.0
"""The choice of the CPU on which a host starts, so that jobs in it can bind mount namespaces.

Slurm's job_container/tmpfs binds the mount namespace of each job to a file. The kernel allows this
only if the job's namespace is newer than the namespace that contains the file. It compares the ids
of the namespaces, and the greater id is the newer one. Newer kernels (observed with 6.18) assign
ids per CPU, in batches. If a host starts on a CPU with high ids, the kernel refuses the namespaces
that the host creates on other CPUs, and about half of the host's jobs fail. The ids of a CPU only
increase. All namespaces in a host are therefore newer than the host if the host starts on the CPU
with the lowest ids.

As a program, this file prints "<cpu> <id>" of a new namespace for each CPU. The program must run in
a separate process, because it leaves its own namespace.
"""

import ctypes
import fcntl
import os
import struct
import subprocess
import sys

CLONE_NEWNS = 0x20000
# _IOR(0xb7, 5, __u64), since Linux 6.10. In kernels without this ioctl the ids do not depend on the
# CPU.
NS_MNT_GET_ID = 0x8008B705


def launcher() -> list[str]:
    """Return the prefix command that starts ``systemd-nspawn`` on the right CPU.

    The list is empty if the kernel does not report the ids of namespaces.
    """
    result = subprocess.run(
        [sys.executable, "-I", __file__], capture_output=True, text=True, check=True
    )
    ids_by_cpu = {}
    for line in result.stdout.splitlines():
        cpu, namespace_id = line.split()
        ids_by_cpu[int(cpu)] = int(namespace_id)
    return ["taskset", "--cpu-list", str(cpu_of_lowest(ids_by_cpu))] if ids_by_cpu else []


def payload_cpus() -> str:
    """Return all CPUs of this process, in the form of systemd-nspawn's ``--cpu-affinity``."""
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


def cpu_of_lowest(ids_by_cpu: dict[int, int]) -> int:
    """Return the CPU whose new namespace has the lowest id; ``ids_by_cpu`` is not empty."""
    return min(ids_by_cpu, key=ids_by_cpu.__getitem__)


def _id_of_new_namespace() -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "could not create a mount namespace")
    namespace_id = bytearray(struct.calcsize("Q"))
    # An import of pathlib would slow down the start of this short program.
    with open("/proc/self/ns/mnt", "rb") as namespace:  # noqa: PTH123
        try:
            fcntl.ioctl(namespace, NS_MNT_GET_ID, namespace_id)
        except OSError:
            return None
    return int(struct.unpack("Q", namespace_id)[0])


def main() -> None:
    """Print the id of a new namespace for each CPU, if the kernel reports ids."""
    for cpu in sorted(os.sched_getaffinity(0)):
        os.sched_setaffinity(0, {cpu})
        namespace_id = _id_of_new_namespace()
        if namespace_id is not None:
            print(cpu, namespace_id)


if __name__ == "__main__":
    main()
