# SPDX-License-Identifier: Apache-2.0
"""Checks units, files and the output of commands on a host. Changes nothing.

The entry point ``verify`` of a role calls this module once for all its checks, because each call
costs a round trip per host. All checks run, even if one fails.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: inspection
short_description: Check units, files and the output of commands
description:
  - Changes nothing. Runs all checks, and fails at the end if a check failed. The message lists the
    failed checks.
options:
  units:
    type: list
    elements: str
    default: []
    description:
      - Units that must run now and after a boot. The module waits up to 60 s for units that are
        starting, or whose start is queued, for example after a boot.
  files:
    type: list
    elements: dict
    default: []
    description: Path, owner, group and mode of files that must exist.
  commands:
    type: list
    elements: dict
    default: []
    description:
      - Commands that must succeed. The output must match every pattern of C(expect) and no pattern
        of C(refuse).
      - C(argv) is the command, and C(what) describes the check. The command is repeated until the
        check succeeds, for at most C(wait_s) seconds, or until 60 s after the last start of a
        running unit in O(units) if that is later. A slow host needs this time after a start.
      - C(who) is the person who must act if the check fails, C(operator) for the operator of the
        provider or C(grid) for the operator of the grid. C(hint) is what this person can do.
"""
EXAMPLES = """
- name: Check munged and its key
  gridstead.site.inspection:
    units: [munge.service]
    files: [{path: /etc/munge/munge.key, owner: munge, group: munge, mode: "0400"}]
    commands: [{what: munged creates credentials, argv: [munge, --no-input]}]
"""
RETURN = """
looks:
  type: list
  returned: always
  description: All checks with their results, and who must act if a check failed.
"""

DISABLED_STATES = {"disabled", "masked"}
RUNNING_STATES = {"active", "reloading", "refreshing"}
COMMAND_TIMEOUT_S = 60
POLL_INTERVAL_S = 0.5
START_TIMEOUT_S = 60
OUTPUT_MAX_CHARS = 500
UNIT_PROPERTIES = (
    "LoadState", "ActiveState", "SubState", "UnitFileState", "Job", "ActiveEnterTimestampMonotonic",
)  # fmt: skip


class Check(NamedTuple):
    """The result of one check.

    Attributes:
        what: What was checked, as a clause.
        ok: Whether the check succeeded.
        seen: What was wrong; empty if the check succeeded.
        who: Who must act if the check failed: ``operator`` or ``grid``.
        hint: What this person can do; empty if the check succeeded or there is no hint.
    """

    what: str
    ok: bool
    seen: str = ""
    who: str = "operator"
    hint: str = ""


def check_units(names: list[str]) -> list[Check]:
    """Return a check of each unit, in the same order.

    Waits up to 60 s for units that are starting, or whose start is queued.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        properties_by_unit = properties(names)
        if not any(map(is_starting, properties_by_unit)) or time.monotonic() >= deadline:
            break
        time.sleep(POLL_INTERVAL_S)
    checks = []
    for name, unit in zip(names, properties_by_unit, strict=True):
        checks.append(check_unit(name, unit))
    return checks


def is_starting(unit: dict[str, str]) -> bool:
    """Return whether a unit is starting, or waits in systemd's queue, from its properties."""
    return unit.get("ActiveState") == "activating" or unit.get("Job", "0") not in {"", "0"}


def startup_deadline(names: list[str]) -> float:
    """Return the time until which failures may result from the last start of a running unit.

    The time is in seconds of the monotonic clock. It is 0 if no unit runs.
    """
    last_start_us = 0
    for unit in properties(names):
        if unit.get("ActiveState") in RUNNING_STATES:
            start_us = int(unit.get("ActiveEnterTimestampMonotonic") or 0)
            last_start_us = max(last_start_us, start_us)
    return last_start_us / 1e6 + START_TIMEOUT_S if last_start_us else 0.0


def properties(names: list[str]) -> list[dict[str, str]]:
    """Return the properties of each unit, in the same order.

    If systemctl fails, LoadState is its output.
    """
    if not names:
        return []
    code, text = run(["systemctl", "show", "--property=" + ",".join(UNIT_PROPERTIES), "--", *names])
    if code != 0:
        return [{"LoadState": text}] * len(names)
    return list(map(properties_of, text.strip().split("\n\n")))


def properties_of(block: str) -> dict[str, str]:
    """Return the properties of one unit, from lines ``NAME=VALUE``."""
    values = {}
    for line in block.splitlines():
        name, value = line.split("=", 1)
        values[name] = value
    return values


def check_unit(name: str, unit: dict[str, str]) -> Check:
    """Return a check of a unit, from its properties."""
    hint = (
        f"Read `journalctl --unit={name}` on this host."
        " `gridstead provider apply` starts stopped units."
    )
    what = f"{name} runs, now and after a boot"
    active_state = unit.get("ActiveState", "")
    if unit.get("LoadState") != "loaded":
        fault = f"it is {unit.get('LoadState')}"
    elif active_state not in RUNNING_STATES:
        fault = f"it is {active_state} ({unit.get('SubState')})"
    elif unit.get("UnitFileState") in DISABLED_STATES:
        fault = f"it is {unit['UnitFileState']}"
    else:
        return Check(what, ok=True)
    return Check(what, ok=False, seen=fault, hint=hint)


def check_file(expected: dict[str, Any]) -> Check:
    """Return a check of a file: that it exists and has the owner, group and mode."""
    path = expected["path"]
    required_fields, what = {}, f"{path} exists"
    for key in ("owner", "group", "mode"):
        if expected.get(key):
            required_fields[key] = expected[key]
            what += f" {key} {expected[key]}"
    hint = "`gridstead provider apply` writes the file again."
    try:
        status = os.stat(path)  # noqa: PTH116 - one call, and no object for each file
    except OSError as err:
        return Check(what, ok=False, seen=str(err.strerror), hint=hint)
    actual = {
        "owner": name_of(pwd.getpwuid, status.st_uid),
        "group": name_of(grp.getgrgid, status.st_gid),
        "mode": f"{status.st_mode & 0o7777:04o}",
    }
    faults = []
    for key, value in required_fields.items():
        if actual[key] != value:
            faults.append(f"{key} is {actual[key]}")
    if not faults:
        return Check(what, ok=True)
    return Check(what, ok=False, seen=", ".join(faults), hint=hint)


def name_of(look_up: Callable[[int], Sequence[Any]], number: int) -> str:
    """Return the name of a user or group, or its number if it has no name."""
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)


def check_command(expected: dict[str, Any], earliest_end: float = 0.0) -> Check:
    """Return a check of a command's output.

    Repeats the command until the check succeeds, for at most ``wait_s`` seconds, or until
    ``earliest_end`` on the monotonic clock if that is later.
    """
    what = expected["what"]
    deadline = max(time.monotonic() + (expected.get("wait_s") or 0), earliest_end)
    while True:
        fault = run_and_check_output(expected)
        if not fault:
            return Check(what, ok=True)
        if time.monotonic() >= deadline:
            who, hint = expected["who"], expected["hint"]
            return Check(what, ok=False, seen=fault, who=who, hint=hint)
        time.sleep(POLL_INTERVAL_S)


def run_and_check_output(expected: dict[str, Any]) -> str:
    """Run a command and return what is wrong with its output; empty if nothing is."""
    program = expected["argv"][0]
    code, text = run(expected["argv"])
    output = f'"{text.strip()[-OUTPUT_MAX_CHARS:]}"'
    if code != 0:
        return f"{program} exited {code}: {output}"
    patterns = expected["expect"]
    missing_patterns = [
        pattern for pattern in patterns if not re.search(pattern, text, re.MULTILINE)
    ]
    if missing_patterns:
        return f"{program} does not print {', '.join(missing_patterns)}: {output}"
    refused_texts: list[str] = []
    for pattern in expected["refuse"]:
        for match in re.finditer(pattern, text, re.MULTILINE):
            matched_text = match[0]
            refused_texts.append(matched_text)
    return f"{program} prints {', '.join(refused_texts)}" if refused_texts else ""


def run(argv: list[str]) -> tuple[int, str]:
    """Return a command's exit code and output.

    The code is 127 if the program does not exist, and 124 if it takes more than 60 s.
    """
    try:
        result = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=COMMAND_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as err:
        return 127, str(err.strerror)
    except subprocess.TimeoutExpired:
        return 124, f"not finished within {COMMAND_TIMEOUT_S} s"
    if result.returncode == 0:
        return 0, result.stdout
    return result.returncode, result.stdout + result.stderr


def failure_message(checks: list[Check]) -> str:
    """Return the failed checks on one line; empty if none failed."""
    failures = [f"{check.what}: {check.seen}" for check in checks if not check.ok]
    if not failures:
        return ""
    return f"{len(failures)} of {len(checks)} checks failed: {'; '.join(failures)}"


def main() -> None:
    """Run the module."""
    texts = {"type": "list", "elements": "str", "default": []}
    files = {"path": {"type": "path", "required": True}, "owner": {}, "group": {}, "mode": {}}
    commands = {
        "what": {"required": True},
        "argv": {"type": "list", "elements": "str", "required": True},
        "expect": texts,
        "refuse": texts,
        "wait_s": {"type": "int", "default": 0},
        "who": {"choices": ["operator", "grid"], "default": "operator"},
        "hint": {"default": ""},
    }
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "units": texts,
            "files": {"type": "list", "elements": "dict", "default": [], "options": files},
            "commands": {"type": "list", "elements": "dict", "default": [], "options": commands},
        },
    )
    params = module.params
    checks = check_units(params["units"])
    checks += map(check_file, params["files"])
    earliest_end = startup_deadline(params["units"])
    for expected in params["commands"]:
        checks.append(check_command(expected, earliest_end))
    looks = list(map(Check._asdict, checks))
    message = failure_message(checks)
    if message:
        module.fail_json(msg=message, looks=looks)
    module.exit_json(changed=False, looks=looks)


if __name__ == "__main__":
    main()
