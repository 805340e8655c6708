# SPDX-License-Identifier: Apache-2.0
"""Checks secrets that an inventory sets itself, for example with Ansible Vault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .diagnostic import Diagnostic
from .inventory import Inventory, alike

# The wiring creates a secret with this lookup and reads it from its file.
_CREATED = "lookup('ansible.builtin.password'"


def secrets(inventory: Inventory, wiring: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Find secrets that begin or end in white space; secrets in files never do.

    Diagnostics do not contain the secret.

    Args:
        inventory: The inventory.
        wiring: The variables that every inventory gets through its link, as they are written.
    """
    for name, created in wiring.items():
        if _CREATED not in str(created):
            continue
        hosts_of_site = inventory.hosts.values()
        own = [host for host in hosts_of_site if host.variables.get(name, created) != created]
        for hosts in alike(own, f"{{{{ {name} }}}}"):
            value = hosts[0].value(name)
            if isinstance(value, str) and value != value.strip():
                yield Diagnostic(
                    where=f"variable {name} of {hosts[0].name}",
                    seen="begins or ends in white space, probably the line break of its file",
                    allowed="only the secret; inventory/README.md has the command that moves a "
                    "secret to Ansible Vault",
                    about=frozenset({name}),
                )
                break
