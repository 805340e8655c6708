# SPDX-License-Identifier: Apache-2.0
"""What a host is, as JSON: files, accounts, packages, units, ports, firewall, mounts. Runs on the
host.
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

# Places that systemd and the kernel make anew at each boot, or that belong to nobody.
PASSED_OVER = tuple(map(Path, ("/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp", "/cgv1")))  # noqa: S108


def output(*argv: str) -> str:
    """Return what a command prints."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def files() -> dict[str, str]:
    """Return kind, rights and owner of each path of the root file system, of a link its target, of
    a file its hash.
    """
    found = {}
    device = Path("/").stat().st_dev
    for folder, folders, names in os.walk("/"):
        place = Path(folder)
        folders[:] = [name for name in folders if is_looked_into(place / name, device)]
        found |= {str(place / name): told(place / name) for name in folders + names}
    return found


def is_looked_into(path: Path, device: int) -> bool:
    """Return whether a folder is on the root file system and lasts."""
    return path not in PASSED_OVER and path.lstat().st_dev == device


def told(path: Path) -> str:
    """Return what is compared of a path."""
    now = path.lstat()
    words = [stat.filemode(now.st_mode), str(now.st_uid), str(now.st_gid)]
    if stat.S_ISLNK(now.st_mode):
        words.append(str(path.readlink()))
    elif stat.S_ISREG(now.st_mode):
        with path.open("rb") as file:
            words.append(hashlib.file_digest(file, "sha256").hexdigest())
    return " ".join(words)


def lines(*argv: str) -> dict[str, str]:
    """Return a command's lines: the first word, and the rest."""
    parted = [line.split() for line in output(*argv).splitlines() if line.strip()]
    return {words[0]: " ".join(words[1:]) for words in parted}


def main() -> None:
    """Print it all."""
    ports = output("ss", "--no-header", "--listening", "--numeric", "--tcp", "--udp").splitlines()
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    listed = ("--plain", "--no-legend", "--full")
    print(
        json.dumps(
            {
                "file": files(),
                "account": {one.pw_name: " ".join(map(str, one[2:])) for one in pwd.getpwall()},
                "group": {
                    one.gr_name: f"{one.gr_gid} {sorted(one.gr_mem)}" for one in grp.getgrall()
                },
                "package": lines(
                    "dpkg-query",
                    "--show",
                    "--showformat=${Package} ${db:Status-Status} ${Version}\n",
                ),
                "needed package": lines("apt-mark", "showauto"),
                "unit": lines("systemctl", "list-unit-files", *listed),
                "running unit": lines("systemctl", "list-units", "--state=active,failed", *listed),
                "port": {" ".join([line.split()[0], line.split()[4]]): "" for line in ports},
                "firewall": {
                    "ruleset": output("nft", "list", "ruleset") if shutil.which("nft") else ""
                },
                "mount": {line.split()[1]: line.split()[0] for line in mounts},
            }
        )
    )


if __name__ == "__main__":
    main()
