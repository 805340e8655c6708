# SPDX-License-Identifier: Apache-2.0
"""Records the state of a host before the roles of a site change it."""

from __future__ import annotations

import grp
import json
import pwd
import shutil
import tarfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: footprint_record
short_description: Record the state of a host before the first run
description:
  - Records the installed packages, the packages that are marked as manually installed, apt's
    package lists, the enabled and active units, the names of users and groups, and a copy of the
    host's settings.
  - Only root can read the record.
  - Does nothing if the record exists. An interrupted run leaves no incomplete record.
options:
  path:
    description: Folder of the record.
    type: path
    required: true
  settings:
    description: Folder of settings to copy.
    type: path
    default: /etc
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Record the state of the host
  gridstead.site.footprint_record:
    path: /var/lib/gridstead/before
"""

RETURN = r"""{}"""

INSTALLED = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\n"]
MANUAL = ["apt-mark", "showmanual"]
LISTS = Path("/var/lib/apt/lists")
ENABLED = ["systemctl", "list-unit-files", "--state=enabled", "--plain", "--no-legend"]
ACTIVE = ["systemctl", "list-units", "--state=active", "--plain", "--no-legend", "--full"]


def first_words(text: str) -> list[str]:
    """Return the first word of each non-empty line, sorted."""
    return sorted(line.split()[0] for line in text.splitlines() if line.strip())


def installed(text: str) -> list[str]:
    """Return the sorted names of the installed packages, each once.

    Args:
        text: Lines of dpkg-query with the state and the name of a package.
    """
    names = set()
    for line in text.splitlines():
        if line.startswith("installed "):
            _, name, *_ = line.split()
            names.add(name)
    return sorted(names)


def write(folder: Path, host: dict[str, list[str]], settings: Path) -> None:
    """Write the record to a temporary folder, and rename the folder when the record is complete."""
    temporary = folder.with_name(f"{folder.name}.new")
    if temporary.exists():
        shutil.rmtree(temporary)
    folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    temporary.mkdir(mode=0o700)
    (temporary / "host.json").write_text(json.dumps(host, indent=1), encoding="utf-8")
    with tarfile.open(temporary / "settings.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(settings, arcname=str(settings).lstrip("/"))
    temporary.rename(folder)


def accounts() -> list[str]:
    """Return the sorted names of all users and groups, each once."""
    names = set()
    for user in pwd.getpwall():
        names.add(user.pw_name)
    for group in grp.getgrall():
        names.add(group.gr_name)
    return sorted(names)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "settings": {"type": "path", "default": "/etc"},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["path"])
    if folder.exists():
        module.exit_json(changed=False)
    if not module.check_mode:

        def output(argv: list[str]) -> str:
            return module.run_command(argv, check_rc=True)[1]

        host = {
            "packages": installed(output(INSTALLED)),
            "manual": first_words(output(MANUAL)),
            "lists": sorted(map(str, LISTS.iterdir())),
            "accounts": accounts(),
            "enabled": first_words(output(ENABLED)),
            "active": first_words(output(ACTIVE)),
        }
        write(folder, host, Path(module.params["settings"]))
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
