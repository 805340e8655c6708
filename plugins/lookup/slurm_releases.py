# SPDX-License-Identifier: Apache-2.0
"""Reads the data of all known releases of Slurm."""

from __future__ import annotations

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.gridstead.site.plugins.module_utils.slurm_releases import (
    known_releases,
    read_release,
)

DOCUMENTATION = """
name: slurm_releases
author: Gridstead contributors
short_description: Read the data of all known releases of Slurm
description:
  - Reads a TOML file from the folder of each release in C(plugins/module_utils/slurm_releases).
options:
  _terms: {description: Names of the files without C(.toml), such as C(costs).}
"""
EXAMPLES = """
- ansible.builtin.debug:
    msg: "{{ lookup('gridstead.site.slurm_releases', 'costs')['24.11'].rule | length }} rules"
"""
RETURN = """
_raw:
  type: list
  elements: dict
  description: A dictionary for each term, with the content of the term's file in each release.
"""


class LookupModule(LookupBase):  # type: ignore[misc]
    """The lookup plugin. Ansible requires this class name."""

    def run(self, terms: list[str], **_: object) -> list[dict[str, Any]]:
        """Return a dictionary for each term: the content of the term's file in each release."""
        return [self._read(term) for term in terms]

    def _read(self, subject: str) -> dict[str, Any]:
        by_release = {}
        for release in known_releases():
            by_release[release] = read_release(release, subject)
        return by_release
