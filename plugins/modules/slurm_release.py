# SPDX-License-Identifier: Apache-2.0
"""Reads the installed version of Slurm, the version after an upgrade, and outdated daemons.

apt simulates the upgrade. A daemon is outdated if the program file that it runs was deleted or
replaced. Therefore a run also finds the daemons that an interrupted run has not restarted.
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
description: Changes nothing, except that it updates apt's package lists with O(refresh).
options:
  source:
    description: The source package of Slurm's packages.
    type: str
    required: true
  units:
    description: The units of Slurm's daemons. Units that do not exist are ignored.
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

# Output of ``apt-get --simulate``: ``Inst slurmd [24.11.5-4] (25.05.1-1 Debian:13 [amd64])``. A new
# package has no old version in brackets.
INSTALL_LINE = re.compile(
    r"^Inst (?P<name>\S+)(?: \[(?P<old>[^\]]+)\])? \((?P<new>\S+) ", re.MULTILINE
)
REMOVE_LINE = re.compile(r"^Remv (\S+)", re.MULTILINE)
DELETED = " (deleted)"  # the end of /proc/PID/exe if the program file was replaced
REMOVED_STATES = "nc"  # dpkg: n: not installed, c: only configuration files remain
PACKAGE_FORMAT = "${db:Status-Abbrev}|${source:Package}|${Package}|${Version}\\n"
PROBLEM_MAX_CHARS = 500


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
    """Return the packages to install and the packages to remove, from apt-get's simulation.

    Both lists are sorted.
    """
    packages = set()
    for match in INSTALL_LINE.finditer(text):
        fields = match.groupdict(default="")
        name, _, _ = fields["name"].partition(":")  # without the architecture
        packages.add(Package(name=name, old=fields["old"], new=fields["new"]))
    return sorted(packages), sorted(set(REMOVE_LINE.findall(text)))


def lowest(versions: list[str]) -> str:
    """Return the lowest of some Debian versions, or an empty text if there is no version."""
    lowest_version = ""
    for version in versions:
        if not lowest_version or is_lower(version, lowest_version):
            lowest_version = version
    return lowest_version


def is_lower(version: str, other_version: str) -> bool:
    """Return whether a Debian version is lower than another version."""
    code, _ = run(["dpkg", "--compare-versions", version, "lt", other_version])
    return code == 0


class Installed(NamedTuple):
    """An installed package of Slurm.

    Attributes:
        version: Version of the package.
        is_configured: Whether dpkg has configured the package.
    """

    version: str
    is_configured: bool


def installed(text: str, source: str) -> dict[str, Installed]:
    """Return the installed packages of a source package, by name, from the output of dpkg-query."""
    packages = {}
    for line in text.splitlines():
        status, source_of_package, name, version = line.split("|")
        state = status[1]  # the first character of the status is the requested state
        if source_of_package == source and state not in REMOVED_STATES:
            packages[name] = Installed(version=version, is_configured=state == "i")
    return packages


def versions_after(packages: dict[str, Installed], newer: list[Package]) -> list[str]:
    """Return the versions of the packages after an upgrade installs the packages ``newer``."""
    versions = {name: package.version for name, package in packages.items()}
    for new_package in newer:
        if new_package.name in versions:
            versions[new_package.name] = new_package.new
    return list(versions.values())


def unconfigured(packages: dict[str, Installed]) -> list[str]:
    """Return the names of the packages that dpkg has not configured, sorted."""
    return [name for name in sorted(packages) if not packages[name].is_configured]


def outdated_units(units: list[str]) -> list[str]:
    """Return the units whose program file was replaced, in the same order."""
    return [unit for unit in units if program(unit).endswith(DELETED)]


def program(unit: str) -> str:
    """Return the target of /proc/PID/exe of a unit's main process; empty if there is no process."""
    _, output = run(["systemctl", "show", "--property=MainPID", "--value", unit])
    pid = output.strip()
    if pid in {"", "0"}:
        return ""
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except FileNotFoundError:  # the process has ended
        return ""


def run(argv: list[str]) -> tuple[int, str]:
    """Return exit code and stdout of a command. If it fails, stderr is appended to stdout."""
    result = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
    )
    text = result.stdout
    if result.returncode != 0:
        text += result.stderr
    return result.returncode, text


def refresh() -> str:
    """Update apt's package lists. Return the error, or an empty text on success."""
    code, text = run(
        ["apt-get", "--quiet", "--option=DPkg::Lock::Timeout=60", "--error-on=any", "update"]
    )
    return text.strip()[-PROBLEM_MAX_CHARS:] if code else ""


def main() -> None:
    """Run the module."""
    unit_names = {"type": "list", "elements": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "source": {"required": True},
            "units": unit_names,
            "refresh": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    problem = refresh() if params["refresh"] else ""
    _, listing = run(["dpkg-query", "--show", f"--showformat={PACKAGE_FORMAT}"])
    packages = installed(listing, params["source"])
    code, text = run(["apt-get", "--simulate", "--only-upgrade", "install", *packages])
    if code != 0:
        problem = problem or text.strip()[-PROBLEM_MAX_CHARS:]
    newer, removed_packages = changes(text) if packages and code == 0 else ([], [])
    module.exit_json(
        changed=False,
        version=lowest([package.version for package in packages.values()]),
        target=lowest(versions_after(packages, newer)),
        newer=[{"name": package.name, "from": package.old, "to": package.new} for package in newer],
        removed=removed_packages,
        unfinished=unconfigured(packages),
        stale=outdated_units(params["units"]),
        problem=problem,
    )


if __name__ == "__main__":
    main()
