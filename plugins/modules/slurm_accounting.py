# SPDX-License-Identifier: Apache-2.0
"""Creates QOS and accounts in Slurm's accounting and sets their limits.

The module reads the present settings once and changes only the settings that differ. slurmdbd
forwards each change to slurmctld immediately. No reconfigure is needed, and running jobs continue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gridstead.site.plugins.module_utils.slurm_limits import (
    ACCOUNT,
    QOS,
    Parser,
    changed_settings,
    invalid_settings,
)

DOCUMENTATION = """
module: slurm_accounting
short_description: Create QOS and accounts and set their limits
description:
  - Sets the listed settings of each QOS and of each account that has settings, and resets the
    settings that are not listed.
  - Creates a QOS or an account without settings, but does not change its settings.
  - Removes no QOS and no account.
  - C(plugins/module_utils/slurm_limits.py) contains the settings and their types.
options:
  cluster:
    description: The cluster of the accounts.
    type: str
    required: true
  qos:
    description: Settings of each QOS by name.
    type: dict
    default: {}
  accounts:
    description: Name, description and settings of each account.
    type: list
    elements: dict
    default: []
"""
EXAMPLES = """
- name: Create a QOS for long jobs and an account that may use it
  gridstead.site.slurm_accounting:
    cluster: gridstead
    qos: {long: {MaxWall: 7-00:00:00}}
    accounts: [{name: physics, settings: {GrpTRES: cpu=64, QOS: "normal,long"}}]
"""
RETURN = """
changes:
  description: "The changes, for example C(qos long: MaxWall=90)."
  type: list
  returned: always
"""

ROOT = "root"  # the parent of all other accounts
Rows = dict[str, dict[str, str]]


class Accounting:
    """Access to Slurm's accounting with sacctmgr, which prints all names in lower case."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self.changes: list[str] = []

    def show(self, *words: str, fields: list[str]) -> Rows:
        """Return the rows of ``sacctmgr show`` by their first field. A row has its values by field.

        Args:
            words: The arguments of ``sacctmgr show``.
            fields: The fields to print.
        """
        options = ["--noheader", "--parsable2"]
        argv = ["sacctmgr", *options, "show", *words, f"format={','.join(fields)}"]
        # In check mode on a new host sacctmgr fails. Then there are no rows.
        _, out, _ = self._module.run_command(argv, check_rc=not self._module.check_mode)
        rows = {}
        for line in out.splitlines():
            values = line.split("|")
            rows[values[0]] = dict(zip(fields, values, strict=True))
        return rows

    def change(self, description: str, *words: str) -> None:
        """Record a change, and make it with sacctmgr except in check mode."""
        self.changes.append(description)
        if not self._module.check_mode:
            self._module.run_command(["sacctmgr", "--immediate", *words], check_rc=True)

    def set_qos(self, requested: Mapping[str, Mapping[str, object] | None]) -> None:
        """Create missing QOS, and set the settings of each QOS that has settings."""
        fields = ["Name", *QOS]
        by_name = {}
        for name, values in requested.items():
            by_name[name.lower()] = values
        rows = self.show("qos", fields=fields)
        missing_names = sorted(by_name.keys() - rows.keys())
        for name in missing_names:
            self.change(f"qos {name}", "add", "qos", name)
        if missing_names and not self._module.check_mode:
            rows = self.show("qos", fields=fields)
        for name, values in by_name.items():
            if values is None:
                continue
            current_settings = rows.get(name, dict.fromkeys(QOS, ""))
            words = _words(changed_settings(QOS, values, current_settings))
            if words:
                where = ("where", f"name={name}")
                description = f"qos {name}: {' '.join(words)}"
                self.change(description, "modify", "qos", *where, "set", *words)

    def set_accounts(self, requested: list[dict[str, Any]], cluster: str) -> None:
        """Create missing accounts, and set the settings of each account that has settings."""
        filters = ("association", f"cluster={cluster}", "user=")
        fields = ["Account", *ACCOUNT]
        rows = self.show(*filters, fields=fields)
        accounts = []
        is_missing = False
        for entry in requested:
            account = {**entry, "name": str(entry["name"]).lower()}
            accounts.append(account)
            if account["name"] not in rows:
                is_missing = True
                self._add_account(account, cluster)
        if is_missing and not self._module.check_mode:
            rows = self.show(*filters, fields=fields)
        for account in accounts:
            if account["settings"] is not None:
                self._set_limits(account, rows, f"cluster={cluster}")

    def _add_account(self, account: dict[str, Any], cluster: str) -> None:
        name = account["name"]
        description = f"Description={account['description'] or name}"
        self.change(f"account {name}", "add", "account", name, f"Cluster={cluster}", description)

    def _set_limits(self, account: dict[str, Any], rows: Rows, cluster: str) -> None:
        name = account["name"]
        # An account whose QOS are not set inherits the QOS of its parent.
        inherited_settings = {"QOS": rows.get(ROOT, {}).get("QOS", "")}
        current_settings = rows.get(name, {**dict.fromkeys(ACCOUNT, ""), **inherited_settings})
        words = _words(
            changed_settings(
                ACCOUNT, {**inherited_settings, **account["settings"]}, current_settings
            )
        )
        if words:
            where = ("where", f"name={name}", cluster)
            description = f"account {name}: {' '.join(words)}"
            self.change(description, "modify", "account", *where, "set", *words)


def _words(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]


def _errors(qos: Mapping[str, object], accounts: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each invalid setting."""
    for name, values in qos.items():
        yield from _errors_of(QOS, f"qos {name}", values)
    for account in accounts:
        yield from _errors_of(ACCOUNT, f"account {account['name']}", account["settings"])


def _errors_of(parsers: Mapping[str, Parser], owner: str, values: object) -> Iterator[str]:
    for name, error, allowed in invalid_settings(parsers, values):
        subject = f"{owner}, {name}" if name else owner
        yield f"{subject}: {error}; allowed: {allowed}"


def main() -> None:
    """Run the module."""
    account = {
        "name": {"type": "str", "required": True},
        "description": {"type": "str"},
        "settings": {"type": "dict"},
    }
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "qos": {"type": "dict", "default": {}},
            "accounts": {"type": "list", "elements": "dict", "default": [], "options": account},
        },
    )
    qos, accounts = module.params["qos"], module.params["accounts"]
    errors = list(_errors(qos, accounts))
    if errors:
        module.fail_json(msg="\n".join(errors))
    accounting = Accounting(module)
    if qos:
        accounting.set_qos(qos)
    if accounts:
        accounting.set_accounts(accounts, module.params["cluster"])
    after = ""
    for change in accounting.changes:
        after += f"{change}\n"
    module.exit_json(
        changed=bool(after), changes=accounting.changes, diff={"before": "", "after": after}
    )


if __name__ == "__main__":
    main()
