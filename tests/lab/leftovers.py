# SPDX-License-Identifier: Apache-2.0
"""A search of the machine for the remains of a lab."""

import os
import subprocess
from pathlib import Path


def traces(lab_names):
    """Return every object on this machine that has a lab's prefix.

    The search does not use the lab tool.
    """
    prefix = lab_names.prefix
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    for command in ("ip -o link", "ip netns", "nft list tables"):
        lines += _output(*command.split()).splitlines()
    remains = [line for line in lines if prefix in line]
    for folder, pattern in (
        ("/sys/fs/cgroup", f"*/{prefix}*"),
        ("/sys/fs/cgroup", f"{prefix}*"),
        ("/var/lib/gridstead-lab", f"*/*{prefix}*"),
        ("/run/systemd/nspawn", f"*/*{prefix}*"),
    ):
        remains += [str(path) for path in Path(folder).glob(pattern)]
    if lab_names.state.exists():
        remains.append(str(lab_names.state))
    return remains + _processes(prefix)


def _processes(prefix):
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "cgroup").read_bytes()
            marked = f"GRIDSTEAD_LAB={prefix}".encode() in (entry / "environ").read_bytes()
        except OSError:
            continue
        if prefix.encode() in words or marked:
            processes.append(f"{entry.name} {words!r}")
    return processes


def _output(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
