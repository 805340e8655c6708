# SPDX-License-Identifier: Apache-2.0
"""Checks secrets that are variables of the inventory, for example in Ansible Vault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .diagnostic import Diagnostic
from .inventory import Inventory, group_by_meaning, to_template

# Default values of variables contain this lookup. It creates a secret and stores it in a file.
_PASSWORD_LOOKUP = "lookup('ansible.builtin.password'"  # noqa: S105 - only the lookup


def check_secrets(inventory: Inventory, wiring: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Report secrets that begin or end with white space. The diagnostics contain no secret.

    Secrets in files are not checked, because they never contain white space.

    Args:
        inventory: The inventory.
        wiring: The variables of ``group_vars/all/00-wiring`` before templating.
    """
    for name, default in wiring.items():
        if _PASSWORD_LOOKUP not in str(default):
            continue
        hosts = inventory.hosts.values()
        setting_hosts = [host for host in hosts if host.variables.get(name, default) != default]
        for group in group_by_meaning(setting_hosts, to_template(name)):
            value = group[0].value(name)
            if isinstance(value, str) and value != value.strip():
                yield Diagnostic(
                    where=f"variable {name} of {group[0].name}",
                    fault="begins or ends with white space, probably the line break of a file",
                    allowed="only the secret; inventory/README.md has the command that writes a"
                    " secret to Ansible Vault without a line break",
                    affected_names=frozenset({name}),
                )
                break
