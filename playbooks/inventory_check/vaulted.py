# SPDX-License-Identifier: Apache-2.0
"""Secrets that an inventory says itself instead of leaving them in their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from inventory_check.problem import Problem
from inventory_check.site import Site, alike

# What the wiring makes a secret with, and reads it from its file.
_MADE = "lookup('ansible.builtin.password'"


def secrets(site: Site, wiring: Mapping[str, Any]) -> Iterator[Problem]:
    """Find secrets that begin or end in white space, which those in files never do. Their values
    are not told.

    Args:
        site: The inventory.
        wiring: The variables that every inventory has by its link, as they are written.
    """
    for name, made in wiring.items():
        if _MADE not in str(made):
            continue
        own = [host for host in site.hosts.values() if host.variables.get(name, made) != made]
        for some in alike(own, f"{{{{ {name} }}}}"):
            value = some[0].value(name)
            if isinstance(value, str) and value != value.strip():
                yield Problem(
                    where=f"variable {name} of {some[0].name}",
                    found="begins or ends in white space, the end of its file's last line perhaps",
                    allowed="the secret alone; inventory/README.md has the command that moves one to Ansible Vault",
                    about=frozenset({name}),
                )
                break
