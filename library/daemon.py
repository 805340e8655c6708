# SPDX-License-Identifier: Apache-2.0
"""A daemon runs, now and after a boot, and knows its files as they are.

A handler restarts what a run has changed. A run that is killed before its handlers leaves a daemon
that knows older files than there are, and the next run finds nothing to change. So it is asked of
the host whether a daemon must be restarted: it must where a file is younger than the daemon.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: daemon
short_description: A daemon that runs with its files as they are
description:
  - Starts it, lets it start at boot, and restarts it if it began before one of its files was last written, or reloads
    it where that suffices.
  - Lets systemd read units anew where one of this daemon's changed.
options:
  name: {type: str, required: true, description: Its unit.}
  reads:
    type: list
    elements: path
    required: true
    description: Files that it reads when it begins, and that nothing but a run of Ansible writes.
  rereads:
    type: list
    elements: path
    default: []
    description: Files that it reads again when it is reloaded.
  beside:
    type: list
    elements: str
    default: []
    description: Other units that it brings files for; systemd reads theirs anew too, and nothing more happens to them.
  no_block: {type: bool, default: false, description: Do not wait until it has started; systemd goes on trying.}
  restart: {type: bool, default: false, description: Restart it also if no file is younger.}
  reload: {type: bool, default: false, description: Reload it also if no file is younger.}
"""
EXAMPLES = """
- name: Ensure munged runs
  daemon:
    name: munge
    reads: [/etc/munge/munge.key]
"""
RETURN = """
state: {type: str, returned: always, description: What was to do to it, started, restarted or reloaded; else empty.}
why: {type: list, elements: str, returned: always, description: What was to do, with the files that are younger.}
"""

STATES = ("LoadState", "ActiveState", "UnitFileState", "NeedDaemonReload")
# When it began, was first ready, and was last reloaded; the last two are equal before that.
MOMENTS = (
    "InactiveExitTimestampMonotonic",
    "ActiveEnterTimestampMonotonic",
    "StateChangeTimestampMonotonic",
)
DONE = {"start": "started", "restart": "restarted", "reload": "reloaded"}
RUNS = {"active", "reloading", "refreshing", "activating"}


def begun_at(monotonic_us: str, now: float, monotonic: float) -> float:
    """Return the time, in seconds since 1970, of a moment that systemd tells in microseconds since
    the boot.

    Example:
        >>> begun_at("5000000", now=1000.0, monotonic=15.0)
        990.0
    """
    return now - (monotonic - int(monotonic_us) / 1e6)


def younger(paths: list[str], than: float) -> list[str]:
    """Return the files that were written after a time, in seconds since 1970; what is not there was
    not.
    """
    return [path for path in paths if Path(path).exists() and Path(path).stat().st_mtime > than]


def due(told: dict[str, str], options: dict[str, Any]) -> tuple[str, list[str]]:
    """Return what a daemon that runs needs, restart, reload or nothing, and why."""
    now = partial(begun_at, now=time.time(), monotonic=time.monotonic())
    begun, ready, changed = (now(told[moment]) for moment in MOMENTS)
    newer = younger(options["reads"], begun)
    if newer or options["restart"]:
        return "restart", [f"{path} is younger" for path in newer] or [
            "something else of it is new"
        ]
    newer = younger(options["rereads"], changed if changed > ready else begun)
    if newer or options["reload"]:
        return "reload", [f"{path} is younger" for path in newer] or ["something else of it is new"]
    return "", []


def told_of(text: str) -> dict[str, str]:
    r"""Return what systemd tells of the first unit; units need a daemon-reload if one of them does.

    Example:
        >>> told_of("ActiveState=active\nNeedDaemonReload=no\n\nActiveState=failed\nNeedDaemonReload=yes\n")
        {'ActiveState': 'active', 'NeedDaemonReload': 'yes'}
    """
    first, *others = (
        dict(line.split("=", 1) for line in unit.splitlines()) for unit in text.split("\n\n")
    )
    if any(other["NeedDaemonReload"] == "yes" for other in others):
        first["NeedDaemonReload"] = "yes"
    return first


def what_to_do(told: dict[str, str], options: dict[str, Any]) -> tuple[list[list[str]], list[str]]:
    """Return the commands after which the daemon is as it must be, without program and unit, and
    why they are due.
    """
    commands, why = [], []
    if told["NeedDaemonReload"] == "yes":
        commands.append(["daemon-reload"])
        why.append("systemd knows an older unit")
    if told["UnitFileState"] != "enabled":
        commands.append(["enable"])
        why.append("it would not start at boot")
    if told["ActiveState"] not in RUNS:
        commands.append(["start"])
        why.append("it does not run")
        return commands, why
    command, reasons = due(told, options)
    return commands + [[command]] * bool(command), why + reasons


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "reads": {"type": "list", "elements": "path", "required": True},
            "rereads": {"type": "list", "elements": "path", "default": []},
            "beside": {"type": "list", "elements": "str", "default": []},
            "no_block": {"type": "bool", "default": False},
            "restart": {"type": "bool", "default": False},
            "reload": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    name = module.params["name"]
    look = [
        "systemctl",
        "show",
        "--property=" + ",".join(STATES + MOMENTS),
        "--",
        name,
        *module.params["beside"],
    ]
    _, text, _ = module.run_command(look, check_rc=True)
    told = told_of(text)
    if told["LoadState"] != "loaded" and not module.check_mode:
        module.fail_json(msg=f"cannot run {name}: its unit is {told['LoadState']}")
    commands, why = what_to_do(told, module.params)
    for command in () if module.check_mode else commands:
        asked = ["--no-block"] * (module.params["no_block"] and command[0] in DONE)
        argv = [
            "systemctl",
            *asked,
            *command,
            *([] if command == ["daemon-reload"] else ["--", name]),
        ]
        code, _, err = module.run_command(argv)
        if code != 0:
            module.fail_json(
                msg=f"could not {command[0]} {name}: {err.strip()}; read journalctl --unit={name}"
            )
    state = next((DONE[command] for (command,) in commands if command in DONE), "")
    module.exit_json(changed=bool(commands), state=state, why=why)


if __name__ == "__main__":
    main()
