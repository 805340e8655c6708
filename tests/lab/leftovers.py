# SPDX-License-Identifier: Apache-2.0
"""The look at the machine that says whether anything of a lab is left."""

import os
import subprocess
from pathlib import Path


def traces(mine):
    """Return everything on this machine that carries a lab's prefix, by other means than the lab's
    own.
    """
    mounts = [
        line
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if mine.prefix in line
    ]
    links = [line for line in _output("ip", "-o", "link").splitlines() if mine.prefix in line]
    spaces = [line for line in _output("ip", "netns").splitlines() if mine.prefix in line]
    rules = [line for line in _output("nft", "list", "tables").splitlines() if mine.prefix in line]
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{mine.prefix}*")]
    groups += [str(path) for path in Path("/sys/fs/cgroup").glob(f"{mine.prefix}*")]
    folders = [str(path) for path in Path("/var/lib/gridstead-lab").glob(f"*/*{mine.prefix}*")]
    nspawn = [str(path) for path in Path("/run/systemd/nspawn").glob(f"*/*{mine.prefix}*")]
    state = [str(mine.state)] if mine.state.exists() else []
    return [*mounts, *links, *spaces, *rules, *groups, *folders, *nspawn, *state, *_processes(mine)]


def _processes(mine):
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "cgroup").read_bytes()
            marked = f"GRIDSTEAD_LAB={mine.prefix}".encode() in (entry / "environ").read_bytes()
        except OSError:
            continue
        if mine.prefix.encode() in words or marked:
            found.append(f"{entry.name} {words!r}")
    return found


def _output(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
