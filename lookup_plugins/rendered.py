# SPDX-License-Identifier: Apache-2.0
"""A template, as ``ansible.builtin.template`` renders it, without a copy of every variable that the
host has.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.loader import lookup_loader
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = """
name: rendered
author: Gridstead contributors
short_description: A template, without a copy of every variable
description:
  - Renders as P(ansible.builtin.template#lookup) does, which first copies each variable of the host in all its depth;
    that takes longer than most templates.
options:
  _terms: {description: Templates to render.}
"""
EXAMPLES = """
- ansible.builtin.debug:
    msg: "{{ lookup('rendered', 'etc/hosts.j2') }}"
"""
RETURN = """
_raw:
  type: list
  elements: str
  description: The texts.
"""


class Uncopied(dict[str, Any]):
    """Variables of which a deep copy is a shallow one: to render adds names, and changes nothing
    that is there.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        """Return what the names are added to."""
        return dict(self)


class LookupModule(LookupBase):  # type: ignore[misc]
    """Named as Ansible looks it up."""

    def run(self, terms: list[str], variables: dict[str, Any], **options: object) -> list[str]:
        """Return the texts of the templates."""
        template = lookup_loader.get(
            "ansible.builtin.template", loader=self._loader, templar=self._templar
        )
        rendered: list[str] = template.run(terms, Uncopied(variables), **options)
        return rendered
