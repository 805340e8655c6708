# SPDX-License-Identifier: Apache-2.0
"""Remove the packages that came with a site."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_file import write_whole
from ansible.module_utils.footprint_before import Record

DOCUMENTATION = r"""
module: footprint_packages
short_description: The packages that came with a site off a host
description:
  - Removes packages that the record of role footprint does not have and that nobody has asked for, in one transaction.
    Others stay, also unneeded ones.
  - If a package that stays needs one of them, only those go that apt holds for unneeded.
  - Notes in the record what goes, for apt forgets in a removal that is cut off that nobody has asked for the rest.
  - With I(purge) the settings and the data of these packages go too, and so does the record, which is needed no more.
options:
  record:
    description: Folder of the record.
    type: path
    required: true
  purge:
    description: Whether settings and data of the packages go too.
    type: bool
    default: false
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Ensure nothing is installed that came with the site
  footprint_packages:
    record: /var/lib/gridstead/before
    purge: true
"""

RETURN = r"""
packages:
  description: Names of the packages, sorted.
  type: list
  elements: str
  returned: always
"""

# A recommendation alone keeps no package: those of the site were installed without any.
OPTION = "--option=APT::AutoRemove"
SIMULATE = (
    "apt-get",
    f"{OPTION}::RecommendsImportant=false",
    f"{OPTION}::SuggestsImportant=false",
    "--simulate",
)
MANUAL = ("apt-mark", "showmanual")
STATES = ("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\n")
# The package sudo lets itself be removed from a host without a password of root's only if told so.
# Where it is removed it came with the site, so there is another way to become root.
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "SUDO_FORCE_REMOVE": "yes"}

Run = Callable[..., str]


def touched(simulation: str) -> set[str]:
    """Return the packages that apt would remove or bring."""
    lines = (
        line.split()
        for line in simulation.splitlines()
        if line.startswith(("Inst ", "Purg ", "Remv "))
    )
    return {words[1].partition(":")[0] for words in lines}


def by_state(states: str) -> tuple[set[str], set[str]]:
    """Return the packages that are there, at least by half, and those of which only settings are
    left.
    """
    told = [line.split() for line in states.splitlines()]
    left = {name for state, name in told if state == "config-files"}
    return {name for state, name in told if state != "not-installed"} - left, left


def unwanted(there: set[str], before: set[str], asked_for: set[str], run: Run) -> set[str]:
    """Return the packages that came with the site: not there before, and nobody has asked for them.

    If one that stays needs some of them, they are those that apt holds for unneeded. Apt alone is
    too careful: it keeps what could stand for a package that was there before, as gawk for mawk.
    """
    came = there - before - asked_for
    if came and not touched(run(*SIMULATE, "remove", *sorted(came))) <= came:
        return touched(run(*SIMULATE, "autoremove")) - before
    return came


def main() -> None:
    """Entry point of the module."""
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
    going = set(json.loads(note.read_text(encoding="utf-8"))) if note.exists() else set()

    def run(*argv: str) -> str:
        return module.run_command(list(argv), check_rc=True, environ_update=ENVIRONMENT)[1]

    if not module.check_mode:
        # Apt does nothing while dpkg has not ended what a run that was cut off began. What cannot
        # be ended goes anyway.
        module.run_command(["dpkg", "--configure", "--pending"], environ_update=ENVIRONMENT)
        if forgotten := going & set(run(*MANUAL).split()):
            run("apt-mark", "auto", *sorted(forgotten))
    there, left = by_state(run(*STATES))
    packages = unwanted(there, before, set(run(*MANUAL).split()) - going, run)
    if purge:
        packages |= left - before
    if not module.check_mode:
        if packages:
            write_whole(note, json.dumps(sorted(packages)).encode())
            run("apt-get", "--assume-yes", "purge" if purge else "remove", *sorted(packages))
            note.unlink()
        if purge:
            shutil.rmtree(record)
            if not any(record.parent.iterdir()):
                record.parent.rmdir()
    module.exit_json(changed=bool(packages) or purge, packages=sorted(packages))


if __name__ == "__main__":
    main()
