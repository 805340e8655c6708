# SPDX-License-Identifier: Apache-2.0
"""Ensures that a daemon runs now and after a boot, and that it has read its files as they are now.

A handler restarts a daemon after a change. If a run is interrupted before its handlers, the daemon
still uses older files, and the next run finds no change. This module therefore compares times on
the host: a daemon must restart if one of its files is newer than the daemon.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: daemon
short_description: Run a daemon with its present files
description:
  - Starts the daemon, enables it at boot, and restarts it if one of its files is newer than its
    last start. Reloads it instead where that is enough.
  - Runs systemctl daemon-reload if a unit file changed.
options:
  name: {type: str, required: true, description: The unit of the daemon.}
  reads:
    type: list
    elements: path
    required: true
    description: Files that the daemon reads when it starts. Only Ansible may write them.
  rereads:
    type: list
    elements: path
    default: []
    description: Files that the daemon reads again when it is reloaded.
  more_units:
    type: list
    elements: str
    default: []
    description: Other units whose files Ansible wrote. If they changed, systemctl daemon-reload
      runs; nothing else happens to these units.
  no_block: {type: bool, default: false, description: Do not wait until the daemon has started.}
  restart: {type: bool, default: false, description: Restart the daemon also if no file is newer.}
  reload: {type: bool, default: false, description: Reload the daemon also if no file is newer.}
"""
EXAMPLES = """
- name: Start munged
  gridstead.site.daemon:
    name: munge
    reads: [/etc/munge/munge.key]
"""
RETURN = """
state:
  type: str
  returned: always
  description: The action, C(started), C(restarted) or C(reloaded). Empty if none was necessary.
why:
  type: list
  elements: str
  returned: always
  description: The reasons of the action, with the files that are newer.
"""

STATES = ("LoadState", "ActiveState", "UnitFileState", "NeedDaemonReload")
# Times of the last start, of the moment at which the daemon was ready, and of the last reload. The
# last two are equal before the first reload.
MOMENTS = (
    "InactiveExitTimestampMonotonic",
    "ActiveEnterTimestampMonotonic",
    "StateChangeTimestampMonotonic",
)
DONE = {"start": "started", "restart": "restarted", "reload": "reloaded"}
RUNS = {"active", "reloading", "refreshing", "activating"}


def begun_at(monotonic_us: str, now: float, monotonic: float) -> float:
    """Convert a time of systemd, in microseconds since the boot, to seconds since 1970.

    Example:
        >>> begun_at("5000000", now=1000.0, monotonic=15.0)
        990.0
    """
    return now - (monotonic - int(monotonic_us) / 1e6)


def younger(paths: list[str], than: float) -> list[str]:
    """Return the files that were written after a time, in seconds since 1970.

    Files that do not exist are ignored.
    """
    newer = []
    for path in paths:
        file = Path(path)
        if file.exists() and file.stat().st_mtime > than:
            newer.append(path)
    return newer


def due(properties: dict[str, str], options: dict[str, Any]) -> tuple[str, list[str]]:
    """Return what a running daemon needs, ``restart``, ``reload`` or nothing, and the reasons."""
    now, monotonic = time.time(), time.monotonic()
    started, ready, reloaded = (begun_at(properties[name], now, monotonic) for name in MOMENTS)
    newer = younger(options["reads"], started)
    if newer or options["restart"]:
        return "restart", reasons(newer)
    newer = younger(options["rereads"], reloaded if reloaded > ready else started)
    if newer or options["reload"]:
        return "reload", reasons(newer)
    return "", []


def reasons(newer: list[str]) -> list[str]:
    """Return a reason for each newer file; one reason if the task asked for the action."""
    return [f"{path} is newer" for path in newer] or ["the task requires it"]


def properties_of(text: str) -> dict[str, str]:
    r"""Return the properties of the first unit that systemctl printed.

    NeedDaemonReload is ``yes`` if it is for any of the units.

    Example:
        >>> first = "ActiveState=active\nNeedDaemonReload=no\n"
        >>> properties_of(first + "\nActiveState=failed\nNeedDaemonReload=yes\n")
        {'ActiveState': 'active', 'NeedDaemonReload': 'yes'}
    """
    first, *others = text.split("\n\n")
    properties = {}
    for line in first.splitlines():
        name, value = line.split("=", 1)
        properties[name] = value
    for other in others:
        if "NeedDaemonReload=yes" in other.splitlines():
            properties["NeedDaemonReload"] = "yes"
    return properties


def what_to_do(
    properties: dict[str, str], options: dict[str, Any]
) -> tuple[list[list[str]], list[str]]:
    """Return the systemctl commands that the daemon needs, without the unit, and the reasons."""
    commands, why = [], []
    if properties["NeedDaemonReload"] == "yes":
        commands.append(["daemon-reload"])
        why.append("a unit file changed")
    if properties["UnitFileState"] != "enabled":
        commands.append(["enable"])
        why.append("it would not start at boot")
    if properties["ActiveState"] not in RUNS:
        commands.append(["start"])
        why.append("it does not run")
        return commands, why
    command, due_reasons = due(properties, options)
    if command:
        commands.append([command])
    return commands, why + due_reasons


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "reads": {"type": "list", "elements": "path", "required": True},
            "rereads": {"type": "list", "elements": "path", "default": []},
            "more_units": {"type": "list", "elements": "str", "default": []},
            "no_block": {"type": "bool", "default": False},
            "restart": {"type": "bool", "default": False},
            "reload": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    name = module.params["name"]
    show = ["systemctl", "show", "--property=" + ",".join(STATES + MOMENTS), "--", name]
    _, text, _ = module.run_command([*show, *module.params["more_units"]], check_rc=True)
    properties = properties_of(text)
    if properties["LoadState"] != "loaded" and not module.check_mode:
        module.fail_json(msg=f"cannot run {name}: its unit is {properties['LoadState']}")
    commands, why = what_to_do(properties, module.params)
    state = ""
    for command in commands:
        state = DONE.get(command[0], state)
        if not module.check_mode:
            run(module, name, command)
    module.exit_json(changed=bool(commands), state=state, why=why)


def run(module: AnsibleModule, name: str, command: list[str]) -> None:
    """Run a systemctl command on the unit; a failure ends the module."""
    argv = ["systemctl"]
    if module.params["no_block"] and command[0] in DONE:
        argv.append("--no-block")
    argv += command
    if command != ["daemon-reload"]:
        argv += ["--", name]
    code, _, err = module.run_command(argv)
    if code != 0:
        hint = f"read journalctl --unit={name}"
        module.fail_json(msg=f"could not {command[0]} {name}: {err.strip()}; {hint}")


if __name__ == "__main__":
    main()
