# SPDX-License-Identifier: Apache-2.0
"""Action ``inventory_check``: fails with everything that is wrong with the inventory.

With ``exchanges_authority: true`` the authority may have ended, as the run exchanges it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from inventory_check.check import check
from inventory_check.machine import today


class ActionModule(ActionBase):
    """Compares the inventory with what the roles and services need."""

    _VALID_ARGS = frozenset({"exchanges_authority"})
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of the task."""
        result = super().run(tmp, task_vars)
        hostvars = (task_vars or {})["hostvars"]
        groups = (task_vars or {})["groups"]
        variables = {
            name: {**hostvars.raw_get(name), "hostvars": hostvars} for name in groups["all"]
        }
        exchanges = boolean(self._task.args.get("exchanges_authority", False))
        problems = check(groups, variables, self._loader, today(), exchanges_authority=exchanges)
        found = [str(one) for one in problems]
        if found:
            what = "1 mistake" if len(found) == 1 else f"{len(found)} mistakes"
            lines = "\n".join(f"{number}. {line}" for number, line in enumerate(found, start=1))
            return result | {
                "failed": True,
                "msg": f"The inventory has {what}; nothing was touched.\n{lines}",
            }
        return result | {"changed": False, "msg": f"{len(groups['all'])} hosts, nothing wrong"}
