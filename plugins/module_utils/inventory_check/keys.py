# SPDX-License-Identifier: Apache-2.0
"""Parameter names of slurm.conf, its lines and slurmdbd.conf that Slurm does not know.

Names are not case-sensitive. A daemon that reads another name exits, and slurmctld and slurmdbd
have no option to test a file. ``slurm_releases/<release>/options.toml`` lists the names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.gridstead.site.plugins.module_utils.slurm_releases import (
    known_releases,
    read_release,
)

from .diagnostic import Diagnostic
from .inventory import Inventory

# For each file: groups of hosts, variables in the order of precedence, the list of parameter names
# in options.toml, and the manual page.
FILES = (
    (
        ("slurm_controller", "slurm_backup_controller"),
        ("slurm_config_site", "slurm_config_plugins", "slurm_config", "slurm_config_default"),
        "slurm",
        "slurm.conf",
    ),
    (
        ("slurm_accounting",),
        ("slurm_accounting_config", "slurm_accounting_config_default"),
        "slurmdbd",
        "slurmdbd.conf",
    ),
)


_PINNED = re.compile(r"version (\d\d\.\d\d)\b")


def release(inventory: Inventory) -> str:
    """Return the release of Slurm that ``base_apt_pins`` selects, or else the newest known one."""
    pins = inventory.first().value("base_apt_pins", [])
    for pin in pins:
        match = _PINNED.match(str(pin.get("pin")))
        if match and "slurm*" in pin.get("packages", []):
            return match.group(1)
    return known_releases()[-1]


def names(inventory: Inventory, subject: str) -> list[str]:
    """Return the names of ``node``, ``partition``, ``slurm`` or ``slurmdbd``.

    The names of the newest known release apply to a release that is not known.
    """
    known = known_releases()
    selected = release(inventory)
    options = read_release(selected if selected in known else known[-1], "options")
    return list(options[subject])


def _unknown_release(inventory: Inventory) -> Iterator[Diagnostic]:
    selected = release(inventory)
    if selected not in known_releases():
        yield Diagnostic(
            where="base_apt_pins",
            seen=f"Slurm {selected} is not supported",
            allowed=f"one of {', '.join(known_releases())}",
        )


def files(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find parameters in the inventory that slurm.conf or slurmdbd.conf does not have."""
    yield from _unknown_release(inventory)
    for groups, variables, subject, manual in FILES:
        known = names(inventory, subject)
        reported: set[str] = set()
        for host in inventory.members(*groups):
            for variable in variables:
                table = host.value(variable)
                if isinstance(table, Mapping):
                    new = [key for key in map(str, table) if key not in reported]
                    yield from unknown(variable, new, known, manual)
                    reported.update(new)


def unknown(
    where: str, keys: Iterable[str], known: Iterable[str], manual: str = "slurm.conf"
) -> Iterator[Diagnostic]:
    """Find keys that are not parameters of Slurm."""
    by_lower_case = {name.lower(): name for name in known}
    for key in map(str, keys):
        if key.lower() not in by_lower_case:
            near = difflib.get_close_matches(key.lower(), by_lower_case, n=1)
            question = f"did you mean {by_lower_case[near[0]]}? " if near else ""
            yield Diagnostic(
                where=f"{where}.{key}",
                seen="Slurm has no such parameter",
                allowed=f"{question}{manual}(5) lists them",
            )
