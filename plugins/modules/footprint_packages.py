# SPDX-License-Identifier: Apache-2.0
"""Removes the packages that a site installed."""

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
  - Removes, in one transaction, packages that are not in the record of role footprint and that are
    not marked as manually installed. Other packages stay, also unneeded ones.
  - If a package that stays needs one of them, removes only those that apt considers unneeded.
  - Notes in the record which packages are being removed, because apt loses their mark as
    automatically installed if the removal is interrupted.
  - With I(purge) also removes settings and data of these packages, and finally the record.
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

# The site installs packages without recommendations, so a recommendation keeps no package.
OPTION = "--option=APT::AutoRemove"
SIMULATE = (
    "apt-get",
    f"{OPTION}::RecommendsImportant=false",
    f"{OPTION}::SuggestsImportant=false",
    "--simulate",
)
MANUAL = ("apt-mark", "showmanual")
STATES = ("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\n")
# Where root has no password, package sudo can only be removed with SUDO_FORCE_REMOVE. If it is
# removed, the site has installed it, so there is another way to become root.
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "SUDO_FORCE_REMOVE": "yes"}

Run = Callable[..., str]


def touched(simulation: str) -> set[str]:
    """Return the packages that apt would install or remove."""
    names = set()
    for line in simulation.splitlines():
        if line.startswith(("Inst ", "Purg ", "Remv ")):
            names.add(line.split()[1].partition(":")[0])
    return names


def by_state(states: str) -> tuple[set[str], set[str]]:
    """Return the packages that are installed, even partly, and those with only settings left."""
    present, left = set(), set()
    for line in states.splitlines():
        state, name = line.split()
        if state == "config-files":
            left.add(name)
        elif state != "not-installed":
            present.add(name)
    return present, left


def unwanted(present: set[str], before: set[str], manual: set[str], run: Run) -> set[str]:
    """Return the packages that the site installed and that are not marked as manually installed.

    If a package that stays needs some of them, returns those that apt considers unneeded. apt alone
    is too cautious: it keeps packages that could replace a package from before, as gawk for mawk.
    """
    installed = present - before - manual
    if installed and not touched(run(*SIMULATE, "remove", *sorted(installed))) <= installed:
        return touched(run(*SIMULATE, "autoremove")) - before
    return installed


def finish_earlier_run(removing: set[str], run: Run) -> None:
    """Finish what an interrupted run started, without which apt does nothing.

    Packages that cannot be configured are removed anyway.

    Args:
        removing: The packages that the interrupted run was removing.
        run: Runs a command.
    """
    run("dpkg", "--configure", "--pending", check=False)
    forgotten = removing & set(run(*MANUAL).split())
    if forgotten:
        run("apt-mark", "auto", *sorted(forgotten))


def remove(packages: list[str], note: Path, run: Run, verb: str) -> None:
    """Remove packages, if any. Until they are removed, a note lists them.

    Args:
        packages: Names of the packages.
        note: Path of the note.
        run: Runs a command.
        verb: ``purge`` or ``remove``.
    """
    if packages:
        write_whole(note, json.dumps(packages).encode())
        run("apt-get", "--assume-yes", verb, *packages)
        note.unlink()


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
    note = record / "going.json"
    removing = set(json.loads(note.read_text(encoding="utf-8"))) if note.exists() else set()

    def run(*argv: str, check: bool = True) -> str:
        return module.run_command(list(argv), check_rc=check, environ_update=ENVIRONMENT)[1]

    if not module.check_mode:
        finish_earlier_run(removing, run)
    present, left = by_state(run(*STATES))
    packages = unwanted(present, before, set(run(*MANUAL).split()) - removing, run)
    if purge:
        packages |= left - before
    names = sorted(packages)
    if not module.check_mode:
        remove(names, note, run, "purge" if purge else "remove")
        if purge:
            delete_record(record)
    module.exit_json(changed=bool(names) or purge, packages=names)


if __name__ == "__main__":
    main()
