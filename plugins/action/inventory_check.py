# SPDX-License-Identifier: Apache-2.0
"""Action ``inventory_check``: fails if the inventory has mistakes, and lists all of them.

With ``exchanges_authority: true`` the check accepts an expired certificate authority, because the
run replaces the authority.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

try:
    from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.check import check
    from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.diagnostic import (
        Diagnostic,
    )
except ImportError as error:
    MISSING: str | None = error.name or str(error)
else:
    MISSING = None

INSTALL = """\
The inventory check needs package gridstead in {python}, but {missing} is missing. To install it:
  {python} -m pip install --require-hashes -r {root}/requirements/control.txt
  {python} -m pip install --no-deps {root}/dist/gridstead-*.whl"""


class ActionModule(ActionBase):
    """Compares the inventory with the requirements of the roles and services."""

    _VALID_ARGS = frozenset({"exchanges_authority"})
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of the task."""
        result = super().run(tmp, task_vars)
        if MISSING:
            root = Path(__file__).resolve().parents[2]
            message = INSTALL.format(python=sys.executable, missing=MISSING, root=root)
            return result | {"failed": True, "msg": message}
        hostvars = (task_vars or {})["hostvars"]
        groups = (task_vars or {})["groups"]
        variables = {}
        for name in groups["all"]:
            variables[name] = {**hostvars.raw_get(name), "hostvars": hostvars}
        exchanges_authority = boolean(self._task.args.get("exchanges_authority", False))
        now = datetime.now(UTC)
        diagnostics = check(
            groups, variables, self._loader, now, exchanges_authority=exchanges_authority
        )
        if diagnostics:
            return result | {"failed": True, "msg": _message(diagnostics)}
        return result | {"changed": False, "msg": f"{len(groups['all'])} hosts, no mistakes"}


def _message(diagnostics: list[Diagnostic]) -> str:
    count = "1 mistake" if len(diagnostics) == 1 else f"{len(diagnostics)} mistakes"
    lines = [f"The inventory has {count}; no host was changed."]
    for number, diagnostic in enumerate(diagnostics, start=1):
        lines.append(f"{number}. {diagnostic}")
    return "\n".join(lines)
