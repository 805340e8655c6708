# SPDX-License-Identifier: Apache-2.0
"""Keep QOS and accounts with their limits in Slurm's accounting.

What is there is asked once, and only what differs is told. slurmdbd passes it on to slurmctld at
once: nothing has to be reconfigured, and jobs that run go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_limits import ACCOUNT, QOS, faults, settings

DOCUMENTATION = """
module: slurm_accounting
short_description: Keep QOS and accounts with their limits
description:
  - Each QOS and each account that has settings is as it is asked here; a setting that is not asked is taken back.
  - One without settings is there, and has those that it had.
  - No QOS and no account is removed.
  - The settings and their forms are in C(module_utils/slurm_limits.py).
options:
  cluster: {type: str, required: true, description: The cluster that the accounts are for.}
  qos: {type: dict, default: {}, description: Settings of each QOS by name.}
  accounts: {type: list, elements: dict, default: [], description: Name, description and settings of each.}
"""
EXAMPLES = """
- name: Have a QOS for long jobs, and an account that may use it
  slurm_accounting:
    cluster: gridstead
    qos: {long: {MaxWall: 7-00:00:00}}
    accounts: [{name: physics, settings: {GrpTRES: cpu=64, QOS: "normal,long"}}]
"""
RETURN = """
changes: {type: list, returned: always, description: "What became otherwise, such as C(qos long: MaxWall=90)."}
"""

ROOT = "root"  # the account above all others


class Accounting:
    """Slurm's accounting, as sacctmgr knows it. It has all names in lower case."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self.changes: list[str] = []

    def show(self, *words: str, fields: list[str]) -> dict[str, dict[str, str]]:
        """Return the rows of a listing by their first field, and each by field."""
        argv = [
            "sacctmgr",
            "--noheader",
            "--parsable2",
            "show",
            *words,
            f"format={','.join(fields)}",
        ]
        # In a check run on a new host there is no accounting yet: all would be new.
        _, out, _ = self._module.run_command(argv, check_rc=not self._module.check_mode)
        rows = [line.split("|") for line in out.splitlines()]
        return {row[0]: dict(zip(fields, row, strict=True)) for row in rows}

    def tell(self, what: str, *words: str) -> None:
        """Tell sacctmgr, unless this is a check run, and note it."""
        self.changes.append(what)
        if not self._module.check_mode:
            self._module.run_command(["sacctmgr", "--immediate", *words], check_rc=True)

    def has_qos(self, asked: Mapping[str, Mapping[str, object] | None]) -> None:
        """Each QOS is there, and as asked if anything is asked of it."""
        fields = ["Name", *QOS]
        asked = {name.lower(): wanted for name, wanted in asked.items()}
        shown = self.show("qos", fields=fields)
        missing = sorted(asked.keys() - shown.keys())
        for name in missing:
            self.tell(f"qos {name}", "add", "qos", name)
        if missing and not self._module.check_mode:
            shown = self.show("qos", fields=fields)
        for name, wanted in asked.items():
            if wanted is None:
                continue
            told = _words(settings(QOS, wanted, shown.get(name, dict.fromkeys(QOS, ""))))
            if told:
                self.tell(
                    f"qos {name}: {' '.join(told)}",
                    "modify",
                    "qos",
                    "where",
                    f"name={name}",
                    "set",
                    *told,
                )

    def has_accounts(self, asked: list[dict[str, Any]], cluster: str) -> None:
        """Each account is there, and as asked if anything is asked of it."""
        filters, fields = ("association", f"cluster={cluster}", "user="), ["Account", *ACCOUNT]
        shown = self.show(*filters, fields=fields)
        asked = [{**account, "name": str(account["name"]).lower()} for account in asked]
        missing = [account for account in asked if account["name"] not in shown]
        for account in missing:
            described = f"Description={account['description'] or account['name']}"
            self.tell(
                f"account {account['name']}",
                "add",
                "account",
                account["name"],
                f"Cluster={cluster}",
                described,
            )
        if missing and not self._module.check_mode:
            shown = self.show(*filters, fields=fields)
        for account in asked:
            if account["settings"] is not None:
                self._has_limits(account, shown, f"cluster={cluster}")

    def _has_limits(
        self, account: dict[str, Any], shown: Mapping[str, dict[str, str]], cluster: str
    ) -> None:
        name = account["name"]
        # An account that is not asked for its QOS has those of the account above.
        above = {"QOS": shown.get(ROOT, {}).get("QOS", "")}
        is_now = shown.get(name, {**dict.fromkeys(ACCOUNT, ""), **above})
        told = _words(settings(ACCOUNT, {**above, **account["settings"]}, is_now))
        if told:
            where = ("where", f"name={name}", cluster)
            self.tell(
                f"account {name}: {' '.join(told)}", "modify", "account", *where, "set", *told
            )


def _words(told: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in told.items()]


def main() -> None:
    """Run as an Ansible module."""
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
    asked = [(QOS, f"qos {name}", one) for name, one in module.params["qos"].items()]
    asked += [
        (ACCOUNT, f"account {one['name']}", one["settings"]) for one in module.params["accounts"]
    ]
    wrong = [
        f"{', '.join(filter(None, (where, name)))}: {found}; {allowed}"
        for known, where, one in asked
        for name, found, allowed in faults(known, one)
    ]
    if wrong:
        module.fail_json(msg="\n".join(wrong))
    accounting = Accounting(module)
    if module.params["qos"]:
        accounting.has_qos(module.params["qos"])
    if module.params["accounts"]:
        accounting.has_accounts(module.params["accounts"], module.params["cluster"])
    told = "".join(f"{change}\n" for change in accounting.changes)
    module.exit_json(
        changed=bool(told), changes=accounting.changes, diff={"before": "", "after": told}
    )


if __name__ == "__main__":
    main()
