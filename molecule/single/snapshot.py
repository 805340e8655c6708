# SPDX-License-Identifier: Apache-2.0
"""Print a snapshot of a host as JSON: files, accounts, packages, units, ports, firewall and mounts.

The program runs on the host.
"""

import grp
import hashlib
import json
import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

# Folders that systemd and the kernel create again at each boot, and folders for temporary files.
EXCLUDED = tuple(
    map(Path, ("/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp", "/cgv1"))  # noqa: S108
)


def output(*argv: str) -> str:
    """Return the output of a command."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def files() -> dict[str, str]:
    """Return path -> description for each path of the root file system."""
    result = {}
    device = Path("/").stat().st_dev
    for folder, folders, names in os.walk("/"):
        place = Path(folder)
        folders[:] = [name for name in folders if is_included(place / name, device)]
        for name in folders + names:
            result[str(place / name)] = description(place / name)
    return result


def is_included(path: Path, device: int) -> bool:
    """Return whether a folder is on the root file system and remains after a boot."""
    return path not in EXCLUDED and path.lstat().st_dev == device


def description(path: Path) -> str:
    """Return type, mode and owner of a path, with the target of a link or the hash of a file."""
    status = path.lstat()
    words = [stat.filemode(status.st_mode), str(status.st_uid), str(status.st_gid)]
    if stat.S_ISLNK(status.st_mode):
        words.append(str(path.readlink()))
    elif stat.S_ISREG(status.st_mode):
        with path.open("rb") as file:
            words.append(hashlib.file_digest(file, "sha256").hexdigest())
    return " ".join(words)


def lines(*argv: str) -> dict[str, str]:
    """Return first word -> other words for each line of a command's output."""
    result = {}
    for line in output(*argv).splitlines():
        words = line.split()
        if words:
            result[words[0]] = " ".join(words[1:])
    return result


def packages() -> dict[str, str]:
    """Return package name -> status and version."""
    shown = "--showformat=${Package} ${db:Status-Status} ${Version}\n"
    return lines("dpkg-query", "--show", shown)


def firewall() -> str:
    """Return the ruleset of nftables, or nothing if nft is not installed."""
    return output("nft", "list", "ruleset") if shutil.which("nft") else ""


def accounts() -> dict[str, str]:
    """Return user -> the other fields of its entry, without the password."""
    result = {}
    for user in pwd.getpwall():
        result[user.pw_name] = " ".join(map(str, user[2:]))
    return result


def groups() -> dict[str, str]:
    """Return group -> its gid and its members."""
    result = {}
    for group in grp.getgrall():
        result[group.gr_name] = f"{group.gr_gid} {sorted(group.gr_mem)}"
    return result


def ports() -> dict[str, str]:
    """Return an empty text for each protocol and address on which a program listens."""
    result = {}
    command = ("ss", "--no-header", "--listening", "--numeric", "--tcp", "--udp")
    for line in output(*command).splitlines():
        words = line.split()
        result[f"{words[0]} {words[4]}"] = ""
    return result


def mounts() -> dict[str, str]:
    """Return mount point -> what is mounted there."""
    result = {}
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        device, point, *_ = line.split()
        result[point] = device
    return result


def main() -> None:
    """Print the snapshot."""
    listed = ("--plain", "--no-legend", "--full")
    snapshot = {
        "file": files(),
        "account": accounts(),
        "group": groups(),
        "package": packages(),
        "needed package": lines("apt-mark", "showauto"),
        "unit": lines("systemctl", "list-unit-files", *listed),
        "running unit": lines("systemctl", "list-units", "--state=active,failed", *listed),
        "port": ports(),
        "firewall": {"ruleset": firewall()},
        "mount": mounts(),
    }
    print(json.dumps(snapshot))


if __name__ == "__main__":
    main()
