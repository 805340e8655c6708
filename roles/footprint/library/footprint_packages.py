# SPDX-License-Identifier: Apache-2.0
"""Remove the packages that came with a site and that nothing on the host wants any more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: footprint_packages
short_description: The packages that came with a site off a host
description:
  - Removes packages that the record of role footprint does not have and that apt holds for unneeded. Others stay,
    also unneeded ones.
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
SIMULATE = ["apt-get", f"{OPTION}::RecommendsImportant=false", f"{OPTION}::SuggestsImportant=false", "--simulate"]
LEFT = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\n"]


def unneeded(simulation: str, before: set[str]) -> list[str]:
    """Return the packages that apt would remove and that were not there before, sorted."""
    names = {line.split()[1].partition(":")[0] for line in simulation.splitlines() if line.startswith("Remv ")}
    return sorted(names - before)


def removed(states: str, before: set[str]) -> list[str]:
    """Return the packages of which only settings are left and that were not there before, sorted."""
    names = {line.split()[1] for line in states.splitlines() if line.startswith("config-files ")}
    return sorted(names - before)


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
    before = set(json.loads((record / "host.json").read_text(encoding="utf-8"))["packages"])

    def run(*argv: str) -> str:
        # The package sudo lets itself be removed from a host without a password of root's only if told so. Where it is
        # removed it came with the site, so there is another way to become root.
        environment = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "SUDO_FORCE_REMOVE": "yes"}
        return module.run_command(list(argv), check_rc=True, environ_update=environment)[1]

    packages = unneeded(run(*SIMULATE, "autoremove"), before)
    if purge:
        packages = sorted({*packages, *removed(run(*LEFT), before)})
    if not module.check_mode:
        if packages:
            run("apt-get", "--assume-yes", "purge" if purge else "remove", *packages)
        if purge:
            shutil.rmtree(record)
            if not any(record.parent.iterdir()):
                record.parent.rmdir()
    module.exit_json(changed=bool(packages) or purge, packages=packages)


if __name__ == "__main__":
    main()
