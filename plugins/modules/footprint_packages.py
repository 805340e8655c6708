# SPDX-License-Identifier: Apache-2.0
"""Removes the packages that the roles of a site installed on a host."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gridstead.site.plugins.module_utils.durable_file import write_whole
from ansible_collections.gridstead.site.plugins.module_utils.footprint_before import Record

DOCUMENTATION = r"""
module: footprint_packages
short_description: Remove the packages that a site installed
description:
  - Removes, in one transaction, all packages that are not in the record of role footprint and that
    are not marked as manually installed. All other packages stay.
  - If a package that stays depends on one of these packages, removes only the packages that apt
    considers unneeded.
  - Writes the names of the packages to the record before it removes them, because apt loses their
    mark as automatically installed if the removal is interrupted.
  - With O(purge), also removes settings and data of these packages, and finally the record.
options:
  record:
    description: Folder of the record.
    type: path
    required: true
  purge:
    description: Whether to remove settings and data of the packages too.
    type: bool
    default: false
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Remove the packages that the site installed
  gridstead.site.footprint_packages:
    record: /var/lib/gridstead/before
    purge: true
"""

RETURN = r"""
packages:
  description: Names of the removed packages, sorted.
  type: list
  elements: str
  returned: always
"""

# The site installs packages without the packages that they recommend. So apt must not keep a
# package because another package recommends it.
OPTION = "--option=APT::AutoRemove"
SIMULATE = (
    "apt-get",
    f"{OPTION}::RecommendsImportant=false",
    f"{OPTION}::SuggestsImportant=false",
    "--simulate",
)
MANUAL = ("apt-mark", "showmanual")
STATES = ("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\n")
# Package sudo refuses its removal if root has no password, unless SUDO_FORCE_REMOVE is set. The
# removal is safe: only a sudo that the site installed is removed, so the machine was used without
# sudo before, and there is another way to become root.
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "SUDO_FORCE_REMOVE": "yes"}

Run = Callable[..., str]


def simulated_packages(simulation: str) -> set[str]:
    """Return the packages that apt would install or remove, from the output of a simulation."""
    names = set()
    for line in simulation.splitlines():
        if line.startswith(("Inst ", "Purg ", "Remv ")):
            _, package, *_ = line.split()
            names.add(package.partition(":")[0])  # without the architecture, as in "libc6:amd64"
    return names


def by_state(states: str) -> tuple[set[str], set[str]]:
    """Return the installed packages, and the removed packages whose configuration files remain.

    Partly installed packages count as installed.
    """
    present_packages, with_configuration_only = set(), set()
    for line in states.splitlines():
        state, name = line.split()
        if state == "config-files":
            with_configuration_only.add(name)
        elif state != "not-installed":
            present_packages.add(name)
    return present_packages, with_configuration_only


def packages_to_remove(present: set[str], before: set[str], manual: set[str], run: Run) -> set[str]:
    """Return the packages that the site installed and that are not marked as manually installed.

    If a remaining package depends on one of these packages, returns only the packages that apt
    considers unneeded. In all other cases ``apt autoremove`` is not asked, because it would keep a
    package that could replace an earlier package. For example, it would keep gawk, which could
    replace mawk.
    """
    installed_by_site = present - before - manual
    if not installed_by_site:
        return set()
    removed_with_them = simulated_packages(run(*SIMULATE, "remove", *sorted(installed_by_site)))
    if removed_with_them <= installed_by_site:
        return installed_by_site
    return simulated_packages(run(*SIMULATE, "autoremove")) - before


def finish_earlier_run(removing: set[str], run: Run) -> None:
    """Configure pending packages and restore the marks that an interrupted run lost.

    apt refuses to work while packages are not configured. Packages whose configuration fails are
    removed later in this run.

    Args:
        removing: The packages that the interrupted run was removing.
        run: Runs a command.
    """
    run("dpkg", "--configure", "--pending", check=False)
    lost_marks = removing & set(run(*MANUAL).split())
    if lost_marks:
        run("apt-mark", "auto", *sorted(lost_marks))


def remove(packages: list[str], list_file: Path, run: Run, apt_command: str) -> None:
    """Remove packages. A file lists the packages until apt has removed them.

    Args:
        packages: Names of the packages.
        list_file: Path of the file.
        run: Runs a command.
        apt_command: ``purge`` or ``remove``.
    """
    if packages:
        write_whole(list_file, json.dumps(packages).encode())
        run("apt-get", "--assume-yes", apt_command, *packages)
        list_file.unlink()


def delete_record(record: Path) -> None:
    """Delete the record, and the folder that contains it if nothing else is in it."""
    shutil.rmtree(record)
    if not any(record.parent.iterdir()):
        record.parent.rmdir()


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "record": {"type": "path", "required": True},
            "purge": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    record, purge = Path(module.params["record"]), module.params["purge"]
    if not record.exists():
        module.exit_json(changed=False, packages=[])
    before = Record(record).packages
    # The packages that an interrupted run was removing.
    list_file = record / "going.json"
    removing: set[str] = set()
    if list_file.exists():
        removing.update(json.loads(list_file.read_text(encoding="utf-8")))

    def run(*argv: str, check: bool = True) -> str:
        _, output, _ = module.run_command(list(argv), check_rc=check, environ_update=ENVIRONMENT)
        return output

    if not module.check_mode:
        finish_earlier_run(removing, run)
    present_packages, with_configuration_only = by_state(run(*STATES))
    manual_packages = set(run(*MANUAL).split()) - removing
    packages = packages_to_remove(present_packages, before, manual_packages, run)
    if purge:
        packages |= with_configuration_only - before
    names = sorted(packages)
    if not module.check_mode:
        apt_command = "purge" if purge else "remove"
        remove(names, list_file, run, apt_command)
        if purge:
            delete_record(record)
    module.exit_json(changed=bool(names) or purge, packages=names)


if __name__ == "__main__":
    main()
