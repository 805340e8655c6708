# SPDX-License-Identifier: Apache-2.0
"""Tell which Slurm a host has, which its apt would put in its place, and which daemons still run
one that is gone.

What apt would do is asked of apt itself. A daemon that runs a replaced program is known by its
file, which the package removed under it; so a run that ended between the packages and the daemons
is made good by the next one.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: slurm_release
short_description: Tell what an upgrade of Slurm would change on a host
description: Changes nothing but apt's lists of packages, and those only if asked to.
options:
  source: {type: str, required: true, description: The source package that Slurm's packages are built from.}
  units: {type: list, elements: str, required: true, description: The units of Slurm's daemons. Some may not exist.}
  refresh: {type: bool, default: false, description: Whether apt fetches its lists first.}
"""
EXAMPLES = """
- name: Look which Slurm is here
  slurm_release: {source: slurm-wlm, units: [slurmd], refresh: true}
"""
RETURN = """
version: {description: Version of the installed packages; the lowest if they differ., type: str, returned: always}
target: {description: The same after an upgrade., type: str, returned: always}
newer: {description: Packages that would change; from is empty for one that is new., type: list, returned: always}
removed: {description: Packages that would go., type: list, returned: always}
unfinished: {description: Packages that are not configured yet., type: list, returned: always}
stale: {description: Units that run a program that is gone., type: list, returned: always}
problem: {description: Why apt cannot upgrade; empty if it can., type: str, returned: always}
"""

SIMULATED = re.compile(
    r"^Inst (?P<name>\S+)(?: \[(?P<old>[^\]]+)\])? \((?P<new>\S+) ", re.MULTILINE
)
REMOVED = re.compile(r"^Remv (\S+)", re.MULTILINE)
GONE = " (deleted)"
GONE_STATES = "nc"  # of dpkg: not installed, and configuration files only
INSTALLED_FORM = "${db:Status-Abbrev}|${source:Package}|${Package}|${Version}\\n"
SAID_MAX = 500


class Package(NamedTuple):
    """A package that would change.

    Attributes:
        name: Its name.
        old: The version that is installed; empty if none is.
        new: The version that would be.
    """

    name: str
    old: str
    new: str


def changes(text: str) -> tuple[list[Package], list[str]]:
    """Return what a simulation of apt-get would install and what it would remove, both sorted."""
    steps = (match.groupdict(default="") for match in SIMULATED.finditer(text))
    found = {
        Package(name=step["name"].partition(":")[0], old=step["old"], new=step["new"])
        for step in steps
    }
    return sorted(found), sorted(set(REMOVED.findall(text)))


def lowest(versions: list[str]) -> str:
    """Return the lowest of Debian's versions; empty if there is none."""
    least = ""
    for version in versions:
        if not least or run(["dpkg", "--compare-versions", version, "lt", least])[0] == 0:
            least = version
    return least


class Installed(NamedTuple):
    """A package of Slurm that is here.

    Attributes:
        version: Its version.
        whole: Whether it is configured, too.
    """

    version: str
    whole: bool


def installed(text: str, source: str) -> dict[str, Installed]:
    """Return the packages of a source that are not merely configuration files, by name, from what
    dpkg-query prints.
    """
    lines = (line.split("|") for line in text.splitlines())
    return {
        name: Installed(version=version, whole=state[1] == "i")
        for state, origin, name, version in lines
        if origin == source and state[1] not in GONE_STATES
    }


def stale(units: list[str]) -> list[str]:
    """Return the units whose program is not the one on disk, in the same order."""
    return [unit for unit in units if program(unit).endswith(GONE)]


def program(unit: str) -> str:
    """Return the file that a unit's main process runs, as the kernel names it; empty if it runs
    none.
    """
    pid = run(["systemctl", "show", "--property=MainPID", "--value", unit])[1].strip()
    try:
        return str(Path(f"/proc/{pid}/exe").readlink()) if pid not in {"", "0"} else ""
    except FileNotFoundError:  # it ended meanwhile
        return ""


def run(argv: list[str]) -> tuple[int, str]:
    """Return a command's exit code and what it prints."""
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
    )
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr


def refreshed() -> str:
    """Have apt fetch its lists and return why it could not; empty if it could."""
    code, text = run(
        ["apt-get", "--quiet", "--option=DPkg::Lock::Timeout=60", "--error-on=any", "update"]
    )
    return text.strip()[-SAID_MAX:] if code else ""


def main() -> None:
    """Run as an Ansible module."""
    names = {"type": "list", "elements": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "source": {"required": True},
            "units": names,
            "refresh": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    asked = module.params
    problem = refreshed() if asked["refresh"] else ""
    packages = installed(
        run(["dpkg-query", "--show", f"--showformat={INSTALLED_FORM}"])[1], asked["source"]
    )
    code, text = run(["apt-get", "--simulate", "--only-upgrade", "install", *packages])
    if code != 0:
        problem = problem or text.strip()[-SAID_MAX:]
    newer, removed = changes(text) if packages and code == 0 else ([], [])
    before = {name: package.version for name, package in packages.items()}
    after = before | {package.name: package.new for package in newer if package.name in packages}
    module.exit_json(
        changed=False,
        version=lowest(list(before.values())),
        target=lowest(list(after.values())),
        newer=[{"name": package.name, "from": package.old, "to": package.new} for package in newer],
        removed=removed,
        unfinished=sorted(name for name, package in packages.items() if not package.whole),
        stale=stale(asked["units"]),
        problem=problem,
    )


if __name__ == "__main__":
    main()
