# SPDX-License-Identifier: Apache-2.0
"""Read the installed Slurm, the version after an upgrade, and the daemons with a replaced program.

apt itself simulates the upgrade. A daemon runs a replaced program if the file of its program was
deleted, so a run also finds the daemons that an interrupted run has not restarted.
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
short_description: Compute the changes of an upgrade of Slurm on a host
description: Updates apt's package lists if C(refresh) is set. Changes nothing else.
options:
  source:
    description: The source package of Slurm's packages.
    type: str
    required: true
  units:
    description: The units of Slurm's daemons. Some may not exist.
    type: list
    elements: str
    required: true
  refresh:
    description: Whether to update apt's package lists first.
    type: bool
    default: false
"""
EXAMPLES = """
- name: Read the installed and the available version of Slurm
  gridstead.site.slurm_release: {source: slurm-wlm, units: [slurmd], refresh: true}
"""
RETURN = """
version:
  description: Version of the installed packages. The lowest version if they differ.
  type: str
  returned: always
target:
  description: Version after an upgrade. The lowest version if they differ.
  type: str
  returned: always
newer:
  description: Packages that would be installed. C(from) is empty for a new package.
  type: list
  returned: always
removed:
  description: Packages that would be removed.
  type: list
  returned: always
unfinished:
  description: Packages that are not configured yet.
  type: list
  returned: always
stale:
  description: Units that run a replaced program.
  type: list
  returned: always
problem:
  description: Why apt cannot upgrade the packages. Empty if it can.
  type: str
  returned: always
"""

SIMULATED = re.compile(
    r"^Inst (?P<name>\S+)(?: \[(?P<old>[^\]]+)\])? \((?P<new>\S+) ", re.MULTILINE
)
REMOVED = re.compile(r"^Remv (\S+)", re.MULTILINE)
DELETED = " (deleted)"
REMOVED_STATES = "nc"  # states of dpkg: not installed, and only configuration files
INSTALLED_FORM = "${db:Status-Abbrev}|${source:Package}|${Package}|${Version}\\n"
PROBLEM_MAX = 500


class Package(NamedTuple):
    """A package that an upgrade would install.

    Attributes:
        name: Name of the package.
        old: The installed version. Empty if the package is not installed.
        new: The version after the upgrade.
    """

    name: str
    old: str
    new: str


def changes(text: str) -> tuple[list[Package], list[str]]:
    """Return the packages that a simulation of apt-get installs and removes. Both are sorted."""
    packages = set()
    for match in SIMULATED.finditer(text):
        step = match.groupdict(default="")
        name, _, _ = step["name"].partition(":")
        packages.add(Package(name=name, old=step["old"], new=step["new"]))
    return sorted(packages), sorted(set(REMOVED.findall(text)))


def lowest(versions: list[str]) -> str:
    """Return the lowest of some Debian versions, or an empty text if there is no version."""
    least = ""
    for version in versions:
        if not least or run(["dpkg", "--compare-versions", version, "lt", least])[0] == 0:
            least = version
    return least


class Installed(NamedTuple):
    """An installed package of Slurm.

    Attributes:
        version: Version of the package.
        configured: Whether dpkg has configured the package.
    """

    version: str
    configured: bool


def installed(text: str, source: str) -> dict[str, Installed]:
    """Return the installed packages of a source package, by name, from the output of dpkg-query."""
    packages = {}
    for line in text.splitlines():
        state, origin, name, version = line.split("|")
        if origin == source and state[1] not in REMOVED_STATES:
            packages[name] = Installed(version=version, configured=state[1] == "i")
    return packages


def after(packages: dict[str, Installed], newer: list[Package]) -> list[str]:
    """Return the versions that the installed packages have after an upgrade."""
    new_versions = {}
    for package in newer:
        new_versions[package.name] = package.new
    return [new_versions.get(name, packages[name].version) for name in packages]


def unfinished(packages: dict[str, Installed]) -> list[str]:
    """Return the names of the packages that dpkg has not configured, sorted."""
    return [name for name in sorted(packages) if not packages[name].configured]


def stale(units: list[str]) -> list[str]:
    """Return the units that run a replaced program, in the same order."""
    return [unit for unit in units if program(unit).endswith(DELETED)]


def program(unit: str) -> str:
    """Return the program of a unit's main process, as in /proc/PID/exe, or an empty text."""
    pid = run(["systemctl", "show", "--property=MainPID", "--value", unit])[1].strip()
    if pid in {"", "0"}:
        return ""
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except FileNotFoundError:  # the process has ended
        return ""


def run(argv: list[str]) -> tuple[int, str]:
    """Return the exit code and the stdout of a command. If it fails, also return its stderr."""
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
    )
    text = done.stdout
    if done.returncode != 0:
        text += done.stderr
    return done.returncode, text


def refresh() -> str:
    """Update apt's package lists. Return the error, or an empty text on success."""
    code, text = run(
        ["apt-get", "--quiet", "--option=DPkg::Lock::Timeout=60", "--error-on=any", "update"]
    )
    return text.strip()[-PROBLEM_MAX:] if code else ""


def main() -> None:
    """Run the module."""
    names = {"type": "list", "elements": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "source": {"required": True},
            "units": names,
            "refresh": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    problem = refresh() if params["refresh"] else ""
    listing = run(["dpkg-query", "--show", f"--showformat={INSTALLED_FORM}"])[1]
    packages = installed(listing, params["source"])
    code, text = run(["apt-get", "--simulate", "--only-upgrade", "install", *packages])
    if code != 0:
        problem = problem or text.strip()[-PROBLEM_MAX:]
    newer, removed = changes(text) if packages and code == 0 else ([], [])
    module.exit_json(
        changed=False,
        version=lowest([package.version for package in packages.values()]),
        target=lowest(after(packages, newer)),
        newer=[{"name": package.name, "from": package.old, "to": package.new} for package in newer],
        removed=removed,
        unfinished=unfinished(packages),
        stale=stale(params["units"]),
        problem=problem,
    )


if __name__ == "__main__":
    main()
