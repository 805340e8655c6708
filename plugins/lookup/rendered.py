# SPDX-License-Identifier: Apache-2.0
"""Renders a template like lookup ``ansible.builtin.template``, without copying all variables."""

from __future__ import annotations

from typing import Any

from ansible.plugins.loader import lookup_loader
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = """
name: rendered
author: Gridstead contributors
short_description: Render a template without copying all variables
description:
  - Renders templates like P(ansible.builtin.template#lookup), but is faster. That lookup first
    makes a deep copy of all variables of the host, which takes longer than the rendering of most
    templates.
options:
  _terms: {description: Templates to render.}
"""
EXAMPLES = """
- ansible.builtin.debug:
    msg: "{{ lookup('gridstead.site.rendered', 'etc/hosts.j2') }}"
"""
RETURN = """
_raw:
  type: list
  elements: str
  description: The rendered texts.
"""


class ShallowCopiedVariables(dict[str, Any]):
    """Variables that return a shallow copy when a deep copy is requested.

    Lookup `template` makes a deep copy of all variables before it renders a template. A shallow
    copy is faster. It is sufficient, because the lookup adds variables but changes no values.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        """Return a shallow copy."""
        return dict(self)


class LookupModule(LookupBase):  # type: ignore[misc]
    """The lookup plugin. Ansible requires this class name."""

    def run(self, terms: list[str], variables: dict[str, Any], **options: object) -> list[str]:
        """Return the rendered texts."""
        template = lookup_loader.get(
            "ansible.builtin.template", loader=self._loader, templar=self._templar
        )
        rendered_texts: list[str] = template.run(
            terms, ShallowCopiedVariables(variables), **options
        )
        return rendered_texts
