# SPDX-License-Identifier: Apache-2.0
"""Print a snapshot of a host as JSON: files, accounts, packages, units, ports, firewall and mounts.

prepare.yml and gridstead_lab.snapshots run this program on the host.
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

# The folders that systemd and the kernel create at each boot, and the folders of temporary files.
EXCLUDED = tuple(
    map(Path, ("/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp", "/cgv1"))  # noqa: S108
)


def output(*argv: str) -> str:
    """Return the output of a command."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def files() -> dict[str, str]:
    """Return the description of each path of the root file system, by path."""
    result = {}
    device = Path("/").stat().st_dev
    for folder, folders, names in os.walk("/"):
        folder_path = Path(folder)
        folders[:] = [name for name in folders if is_part_of_snapshot(folder_path / name, device)]
        for name in folders + names:
            result[str(folder_path / name)] = description(folder_path / name)
    return result


def is_part_of_snapshot(path: Path, device: int) -> bool:
    """Return whether a folder is on the root file system and is not created at each boot."""
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


def lines_by_first_word(*argv: str) -> dict[str, str]:
    """Return the rest of each line of a command's output, by the first word of the line."""
    result = {}
    for line in output(*argv).splitlines():
        words = line.split()
        if words:
            result[words[0]] = " ".join(words[1:])
    return result


def packages() -> dict[str, str]:
    """Return the status and the version of each package, by name."""
    format_option = "--showformat=${Package} ${db:Status-Status} ${Version}\n"
    return lines_by_first_word("dpkg-query", "--show", format_option)


def firewall() -> str:
    """Return the ruleset of nftables, or an empty text if nft is not installed."""
    return output("nft", "list", "ruleset") if shutil.which("nft") else ""


def accounts() -> dict[str, str]:
    """Return the fields of each user's passwd entry after the password, by user."""
    result = {}
    for user in pwd.getpwall():
        result[user.pw_name] = " ".join(map(str, user[2:]))
    return result


def groups() -> dict[str, str]:
    """Return the gid and the members of each group, by name."""
    result = {}
    for group in grp.getgrall():
        result[group.gr_name] = f"{group.gr_gid} {sorted(group.gr_mem)}"
    return result


def ports() -> dict[str, str]:
    """Return the protocols and addresses on which programs listen. The values are empty texts."""
    result = {}
    command = ("ss", "--no-header", "--listening", "--numeric", "--tcp", "--udp")
    for line in output(*command).splitlines():
        protocol, _, _, _, address, *_ = line.split()
        result[f"{protocol} {address}"] = ""
    return result


def mounts() -> dict[str, str]:
    """Return the device of each mount, by mount point."""
    result = {}
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        device, point, *_ = line.split()
        result[point] = device
    return result


def main() -> None:
    """Print the snapshot."""
    list_options = ("--plain", "--no-legend", "--full")
    snapshot = {
        "file": files(),
        "account": accounts(),
        "group": groups(),
        "package": packages(),
        "needed package": lines_by_first_word("apt-mark", "showauto"),
        "unit": lines_by_first_word("systemctl", "list-unit-files", *list_options),
        "running unit": lines_by_first_word(
            "systemctl", "list-units", "--state=active,failed", *list_options
        ),
        "port": ports(),
        "firewall": {"ruleset": firewall()},
        "mount": mounts(),
    }
    print(json.dumps(snapshot))


if __name__ == "__main__":
    main()
