# SPDX-License-Identifier: Apache-2.0
"""Ensures that a daemon runs, is enabled at boot, and has loaded the current version of its files.

Handlers are not sufficient: if a run is interrupted before its handlers, the daemon still uses the
old files, and the next run finds no change. Therefore this module compares times on the host. A
daemon must restart if one of its files is newer than the daemon's last start.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: daemon
short_description: Run a daemon with the current version of its files
description:
  - Starts the daemon and enables it at boot.
  - Restarts the daemon if a file in O(reads) is newer than the last start. Reloads the daemon if a
    file in O(rereads) is newer than the last start and the last reload.
  - Runs systemctl daemon-reload if a unit file changed.
options:
  name: {type: str, required: true, description: The unit of the daemon.}
  reads:
    type: list
    elements: path
    required: true
    description: Files that the daemon reads at its start. Only Ansible may write them.
  rereads:
    type: list
    elements: path
    default: []
    description: Files that the daemon reads at its start and at each reload.
  more_units:
    type: list
    elements: str
    default: []
    description: Other units whose files Ansible wrote. The module runs systemctl daemon-reload if
      their files changed, but does not start or restart these units.
  no_block: {type: bool, default: false, description: Do not wait until the daemon has started.}
  restart: {type: bool, default: false, description: Restart the daemon even if no file is newer.}
  reload: {type: bool, default: false, description: Reload the daemon even if no file is newer.}
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
  description: The action, C(started), C(restarted) or C(reloaded). Empty if the daemon already ran
    and needed no restart and no reload.
why:
  type: list
  elements: str
  returned: always
  description: The reasons for all changes, with the newer files.
"""

STATES = ("LoadState", "ActiveState", "UnitFileState", "NeedDaemonReload")
# The times at which the daemon was started, was ready, and was last reloaded. Before the first
# reload, the second and the third time are equal.
TIMESTAMPS = (
    "InactiveExitTimestampMonotonic",
    "ActiveEnterTimestampMonotonic",
    "StateChangeTimestampMonotonic",
)
STATE_BY_ACTION = {"start": "started", "restart": "restarted", "reload": "reloaded"}
RUNNING_STATES = {"active", "reloading", "refreshing", "activating"}


def to_unix_time(monotonic_us: str, now: float, monotonic: float) -> float:
    """Convert a timestamp of systemd to Unix time in seconds.

    Args:
        monotonic_us: Microseconds since the boot.
        now: The current Unix time in seconds.
        monotonic: The current time in seconds since the boot.

    Example:
        >>> to_unix_time("5000000", now=1000.0, monotonic=15.0)
        990.0
    """
    return now - (monotonic - int(monotonic_us) / 1e6)


def files_newer_than(paths: list[str], unix_time: float) -> list[str]:
    """Return the files that were modified after a Unix time. Missing files are ignored."""
    newer = []
    for path in paths:
        file = Path(path)
        if file.exists() and file.stat().st_mtime > unix_time:
            newer.append(path)
    return newer


def plan_reload(properties: dict[str, str], options: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the action that a running daemon needs, and the reasons.

    The action is ``restart``, ``reload`` or an empty text.
    """
    now, monotonic = time.time(), time.monotonic()
    started_at, ready_at, reloaded_at = (
        to_unix_time(properties[name], now, monotonic) for name in TIMESTAMPS
    )
    newer_files = files_newer_than(options["reads"], started_at)
    if newer_files or options["restart"]:
        return "restart", reasons(newer_files)
    last_read_at = reloaded_at if reloaded_at > ready_at else started_at
    newer_files = files_newer_than(options["rereads"], last_read_at)
    if newer_files or options["reload"]:
        return "reload", reasons(newer_files)
    return "", []


def reasons(newer_files: list[str]) -> list[str]:
    """Return a reason for each newer file.

    If there is no newer file, the only reason is that the task required the action.
    """
    return [f"{path} is newer" for path in newer_files] or ["the task requires it"]


def properties_of(text: str) -> dict[str, str]:
    r"""Return the properties of the first unit in the output of ``systemctl show``.

    NeedDaemonReload is ``yes`` if it is ``yes`` for any unit in the output.

    Example:
        >>> first = "ActiveState=active\nNeedDaemonReload=no\n"
        >>> properties_of(first + "\nActiveState=failed\nNeedDaemonReload=yes\n")
        {'ActiveState': 'active', 'NeedDaemonReload': 'yes'}
    """
    first_text, *other_texts = text.split("\n\n")
    properties = {}
    for line in first_text.splitlines():
        name, value = line.split("=", 1)
        properties[name] = value
    for text_of_unit in other_texts:
        if "NeedDaemonReload=yes" in text_of_unit.splitlines():
            properties["NeedDaemonReload"] = "yes"
    return properties


def plan_commands(
    properties: dict[str, str], options: dict[str, Any]
) -> tuple[list[list[str]], list[str]]:
    """Return the necessary systemctl commands, without the name of the unit, and the reasons."""
    commands, command_reasons = [], []
    if properties["NeedDaemonReload"] == "yes":
        commands.append(["daemon-reload"])
        command_reasons.append("a unit file changed")
    if properties["UnitFileState"] != "enabled":
        commands.append(["enable"])
        command_reasons.append("it is not enabled at boot")
    if properties["ActiveState"] not in RUNNING_STATES:
        commands.append(["start"])
        command_reasons.append("it does not run")
        return commands, command_reasons
    command, reload_reasons = plan_reload(properties, options)
    if command:
        commands.append([command])
    return commands, command_reasons + reload_reasons


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
    show_command = ["systemctl", "show", "--property=" + ",".join(STATES + TIMESTAMPS), "--", name]
    _, text, _ = module.run_command([*show_command, *module.params["more_units"]], check_rc=True)
    properties = properties_of(text)
    if properties["LoadState"] != "loaded" and not module.check_mode:
        module.fail_json(msg=f"cannot run {name}: its unit is {properties['LoadState']}")
    commands, command_reasons = plan_commands(properties, module.params)
    state = ""
    for command in commands:
        state = STATE_BY_ACTION.get(command[0], state)
        if not module.check_mode:
            run(module, name, command)
    module.exit_json(changed=bool(commands), state=state, why=command_reasons)


def run(module: AnsibleModule, name: str, command: list[str]) -> None:
    """Run a systemctl command on the unit; a failure ends the module."""
    argv = ["systemctl"]
    if module.params["no_block"] and command[0] in STATE_BY_ACTION:
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
