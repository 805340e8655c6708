# SPDX-License-Identifier: Apache-2.0
"""Tell what it costs to put Slurm's configuration in force.

What is compared is what the daemons were last told, not what stands on disk: a run that ended
between the files and the daemons, or whose reconfigure Slurm refused, is made good by the next one.
"""

from __future__ import annotations

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_costs import MAIN, judge, settings

DOCUMENTATION = """
module: slurm_change
short_description: Tell what it costs to put Slurm's configuration in force
description: Changes nothing. The rules are in C(module_utils/slurm_costs.py).
options:
  files: {type: dict, required: true, description: The new texts, by file name.}
  in_force: {type: path, required: true, description: JSON file with the texts that the daemons were last told.}
"""
EXAMPLES = """
- name: Learn what the new settings cost
  slurm_change:
    files: {slurm.conf: "KillWait=30"}
    in_force: /etc/slurm/gridstead-in-force.json
  register: __slurm_change_result
"""
RETURN = """
cost: {description: nothing, reconfigure or restart., type: str, returned: always}
differences: {description: What is not as it was., type: list, returned: always}
ends: {description: Whose jobs it would end, as lists of options for squeue., type: list, returned: always}
state_was: {description: Where slurmctld has its state; empty if it was told nothing yet., type: str, returned: always}
"""


def main() -> None:
    """Read what is in force and answer."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "dict", "required": True},
            "in_force": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    told = Path(module.params["in_force"])
    old = json.loads(told.read_text(encoding="utf-8")) if told.exists() else {}
    verdict = judge(old, module.params["files"])
    state_was = settings(MAIN, old.get(MAIN, "")).get(("StateSaveLocation", ""), "")
    module.exit_json(
        changed=False,
        cost=verdict.cost,
        differences=verdict.differences,
        ends=verdict.ends,
        state_was=state_was,
    )


if __name__ == "__main__":
    main()
