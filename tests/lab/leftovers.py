# SPDX-License-Identifier: Apache-2.0
"""A search for the objects that a removed lab left on the machine."""

import os
import subprocess
from pathlib import Path


def find_remains(lab_names):
    """Return a text for each object on this machine whose description contains a lab's prefix.

    The objects are mounts, interfaces, network namespaces, tables, units of systemd, cgroups, files
    and processes.
    The search does not use the lab tool, because the tests check this tool.
    """
    prefix = lab_names.prefix
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    for command in ("ip -o link", "ip netns", "nft list tables"):
        lines += _output(*command.split()).splitlines()
    if Path("/run/systemd/system").is_dir():  # systemd runs on this machine
        lines += _output("systemctl", "list-units", "--all", "--plain", f"{prefix}*").splitlines()
    leftovers = [line for line in lines if prefix in line]
    for folder, pattern in (
        ("/sys/fs/cgroup", f"*/{prefix}*"),
        ("/sys/fs/cgroup", f"{prefix}*"),
        ("/var/lib/gridstead-lab", f"*/*{prefix}*"),
        ("/run/systemd/nspawn", f"*/*{prefix}*"),
    ):
        leftovers += [str(path) for path in Path(folder).glob(pattern)]
    if lab_names.state_folder.exists():
        leftovers.append(str(lab_names.state_folder))
    return leftovers + _processes(prefix)


def _processes(prefix):
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "cgroup").read_bytes()
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        is_marked = f"GRIDSTEAD_LAB={prefix}".encode() in environment
        if is_marked or prefix.encode() in text:
            processes.append(f"{entry.name} {text!r}")
    return processes


def _output(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
