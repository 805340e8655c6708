# SPDX-License-Identifier: Apache-2.0
"""Checks the names of the parameters in slurm.conf and slurmdbd.conf.

In slurm.conf, the lines of nodes and partitions have their own parameters. Names are not
case-sensitive. A daemon exits if it reads an unknown name, and slurmctld and slurmdbd have no
option to test a file. ``slurm_releases/<release>/options.toml`` lists the known names.
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

# For each file: groups of hosts, variables with parameters (highest precedence first), name of the
# list in options.toml, and manual page.
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


_PIN = re.compile(r"version (\d\d\.\d\d)\b")  # a pin of apt such as ``version 24.11.*``


def selected_release(inventory: Inventory) -> str:
    """Return the release of Slurm that ``base_apt_pins`` selects.

    Returns the newest known release if no pin selects a release.
    """
    pins = inventory.first().value("base_apt_pins", [])
    for pin in pins:
        match = _PIN.match(str(pin.get("pin")))
        if match and "slurm*" in pin.get("packages", []):
            return match.group(1)
    return known_releases()[-1]


def known_parameters(inventory: Inventory, list_name: str) -> list[str]:
    """Return the names of the parameters in a list of options.toml.

    The lists are ``node``, ``partition``, ``slurm`` and ``slurmdbd``.

    For an unknown release, returns the names of the newest known release.
    """
    release = selected_release(inventory)
    if release not in known_releases():
        release = known_releases()[-1]
    options = read_release(release, "options")
    return list(options[list_name])


def _check_release(inventory: Inventory) -> Iterator[Diagnostic]:
    release = selected_release(inventory)
    if release not in known_releases():
        yield Diagnostic(
            where="base_apt_pins",
            fault=f"Slurm {release} is not supported",
            allowed=f"one of {', '.join(known_releases())}",
        )


def check_parameters(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find an unknown release of Slurm, and unknown parameters of slurm.conf and slurmdbd.conf."""
    yield from _check_release(inventory)
    for groups, variables, list_name, manual in FILES:
        known_names = known_parameters(inventory, list_name)
        checked_keys: set[str] = set()
        for host in inventory.members(*groups):
            for variable in variables:
                table = host.value(variable)
                if isinstance(table, Mapping):
                    new_keys = [key for key in map(str, table) if key not in checked_keys]
                    yield from check_names(variable, new_keys, known_names, manual)
                    checked_keys.update(new_keys)


def check_names(
    where: str, keys: Iterable[str], known_names: Iterable[str], manual: str = "slurm.conf"
) -> Iterator[Diagnostic]:
    """Find keys that are not parameters of Slurm.

    Args:
        where: The variable that contains the keys.
        keys: The keys.
        known_names: The names of all parameters.
        manual: The manual page that describes the parameters.
    """
    by_lower_case = {name.lower(): name for name in known_names}
    for key in map(str, keys):
        if key.lower() not in by_lower_case:
            suggestions = difflib.get_close_matches(key.lower(), by_lower_case, n=1)
            question = ""
            if suggestions:
                question = f"; did you mean {by_lower_case[suggestions[0]]}?"
            yield Diagnostic(
                where=f"{where}.{key}",
                fault=f"Slurm has no such parameter{question}",
                allowed=f"the parameters in {manual}(5)",
            )
