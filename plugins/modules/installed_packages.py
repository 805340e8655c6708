# SPDX-License-Identifier: Apache-2.0
"""Reads the installed packages of a host and the age of apt's package lists.

The module takes a tenth of a second. ansible.builtin.package_facts is slower, because that module
opens apt's whole cache. It also needs a library that a minimal Debian does not have.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: installed_packages
short_description: Read the installed packages and the age of apt's lists
description:
  - Runs dpkg-query and changes nothing.
  - The fact contains less than that of ansible.builtin.package_facts, because Ansible copies all
    facts for each task.
options: {}
"""
EXAMPLES = """
- name: List the installed packages
  gridstead.site.installed_packages:
"""
RETURN = """
ansible_facts:
  returned: always
  type: dict
  description: Facts of the host.
  contains:
    packages: {type: dict, description: The version of each installed package.}
    package_lists_age:
      type: int
      description: Seconds since apt updated its lists. If apt never updated them, seconds since
        1970.
"""

DPKG_QUERY_COMMAND = (
    "dpkg-query",
    "--show",
    "--showformat=${db:Status-Status} ${Package} ${Version}\n",
)
# Ansible's module apt reads the modification times of the same paths. The first path exists only on
# hosts with package update-notifier-common.
UPDATE_PATHS = (Path("/var/lib/apt/periodic/update-success-stamp"), Path("/var/lib/apt/lists"))


def packages_of(dpkg_output: str) -> dict[str, str]:
    """Return the version of each installed package, from the output of dpkg-query."""
    packages = {}
    for line in dpkg_output.splitlines():
        state, name, version = line.split(" ")
        if state == "installed":
            packages[name] = version
    return packages


def newest_change(paths: tuple[Path, ...]) -> int:
    """Return the latest modification of the paths as Unix time; 0 if no path exists."""
    latest = 0
    for path in paths:
        if path.exists():
            latest = max(latest, int(path.stat().st_mtime))
    return latest


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    environment = {**os.environ, "LC_ALL": "C"}
    dpkg_output = subprocess.run(
        DPKG_QUERY_COMMAND, capture_output=True, text=True, check=True, env=environment
    ).stdout
    facts: dict[str, Any] = {
        "packages": packages_of(dpkg_output),
        "package_lists_age": int(time.time()) - newest_change(UPDATE_PATHS),
    }
    module.exit_json(changed=False, ansible_facts=facts)


if __name__ == "__main__":
    main()
