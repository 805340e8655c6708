# SPDX-License-Identifier: Apache-2.0
"""Which packages are on a host, and how old apt's lists are, in a tenth of a second.

ansible.builtin.package_facts opens apt's whole cache for it, through a library that a bare Debian
does not have.
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
short_description: Which packages are on a host, and how old apt's lists are
description:
  - Asks dpkg and changes nothing.
  - The fact is flatter than that of ansible.builtin.package_facts, because Ansible copies it whole for each task.
options: {}
"""
EXAMPLES = """
- name: Learn which packages are here
  installed_packages:
"""
RETURN = """
ansible_facts:
  returned: always
  type: dict
  description: What is known of the host from now on.
  contains:
    packages: {type: dict, description: The version of each package that is installed.}
    package_lists_age: {type: int, description: Seconds since apt last asked its mirrors; since 1970 if never.}
"""

STATES = ("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package} ${Version}\n")
# The first is touched by an update, the second by apt-get alone.
UPDATES = (Path("/var/lib/apt/periodic/update-success-stamp"), Path("/var/lib/apt/lists"))


def packages_of(states: str) -> dict[str, str]:
    """Return the version of what is installed, from dpkg-query's lines."""
    rows = (line.split(" ") for line in states.splitlines())
    return {name: version for state, name, version in rows if state == "installed"}


def newest(places: tuple[Path, ...]) -> int:
    """Return when the newest of the places that are there was changed, in seconds since 1970; 0 if
    there is none.
    """
    return max((int(place.stat().st_mtime) for place in places if place.exists()), default=0)


def main() -> None:
    """Tell of this host."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    states = subprocess.run(
        STATES, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
    ).stdout
    facts: dict[str, Any] = {
        "packages": packages_of(states),
        "package_lists_age": int(time.time()) - newest(UPDATES),
    }
    module.exit_json(changed=False, ansible_facts=facts)


if __name__ == "__main__":
    main()
