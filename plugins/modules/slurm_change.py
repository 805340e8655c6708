# SPDX-License-Identifier: Apache-2.0
"""Computes the cost of a change of Slurm's configuration.

The module compares the new files with the configuration that the daemons last loaded, not with the
files on disk. Therefore a run also applies the changes of an earlier run that was interrupted
before the daemons loaded the files, or whose reconfigure failed.
"""

from __future__ import annotations

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gridstead.site.plugins.module_utils.slurm_costs import (
    SLURM_CONF,
    ChangeCost,
    compute_cost,
    parse_rules,
    parse_settings,
)
from ansible_collections.gridstead.site.plugins.module_utils.slurm_releases import release_of

DOCUMENTATION = """
module: slurm_change
short_description: Compute the cost of a change of Slurm's configuration
description: Changes nothing. The rules are those of the installed release of Slurm.
options:
  files:
    description: The new texts by file name.
    type: dict
    required: true
  in_force:
    description: JSON file with the texts that the daemons last loaded.
    type: path
    required: true
  rules:
    description: The content of C(costs.toml) by release.
    type: dict
    required: true
"""
EXAMPLES = """
- name: Compute the cost of the new settings
  gridstead.site.slurm_change:
    files: {slurm.conf: "KillWait=30"}
    in_force: /etc/slurm/gridstead-in-force.json
    rules: "{{ lookup('gridstead.site.slurm_releases', 'costs') }}"
  register: __slurm_change_result
"""
RETURN = """
cost:
  description: C(nothing), C(reconfigure) or C(restart).
  type: str
  returned: always
differences:
  description: Settings that differ.
  type: list
  returned: always
ends:
  description: Jobs that the change would end, as lists of options of squeue.
  type: list
  returned: always
state_was:
  description: StateSaveLocation in the files that the daemons last loaded. Empty if there are none.
  type: str
  returned: always
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "dict", "required": True},
            "in_force": {"type": "path", "required": True},
            "rules": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    file = Path(module.params["in_force"])
    old_files = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    change = _change(module, old_files)
    state_was = parse_settings(SLURM_CONF, old_files.get(SLURM_CONF, "")).get(
        ("StateSaveLocation", ""), ""
    )
    module.exit_json(
        changed=False,
        cost=change.cost,
        differences=change.differences,
        ends=change.ends,
        state_was=state_was,
    )


def _change(module: AnsibleModule, old_files: dict[str, str]) -> ChangeCost:
    """Return the cost of the change by the rules of the installed release."""
    new_files, rules = module.params["files"], module.params["rules"]
    if not old_files:  # Slurm may not be installed yet
        return compute_cost(old_files, new_files, ())
    _, output, _ = module.run_command(["scontrol", "--version"], check_rc=True)
    version = output.split()[-1]  # the output is "slurm VERSION"
    release = release_of(version)
    if release not in rules:
        module.fail_json(
            msg=f"Slurm {version} is not supported; supported releases: {', '.join(rules)}"
        )
    return compute_cost(old_files, new_files, parse_rules(rules[release]))


if __name__ == "__main__":
    main()
