# SPDX-License-Identifier: Apache-2.0
"""Look at several things of a host at once, change none of them, and say of each whether it is as
it must be.

A role's entry point ``verify`` is one call of this module: a site has a dozen roles on each of many
hosts, and one round trip for each is what its verification may cost. Every look is made, also after
one that found something wrong.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import subprocess
import time
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: inspection
short_description: Look at units, files and what commands say
description:
  - Changes nothing. Fails at its end if anything is wrong, and names all of it.
options:
  units: {type: list, elements: str, default: [], description: Units that must run, now and after a boot.}
  files: {type: list, elements: dict, default: [], description: Path, owner, group and mode of files that must exist.}
  commands:
    type: list
    elements: dict
    default: []
    description:
      - Commands that must succeed. What they print must hold every pattern of C(expect) and none of C(refuse).
      - C(what) says what must be so, C(who) must act if it is not (C(operator) of the provider, or whoever runs the
        C(grid)), C(hint) what they can do. Within C(wait_s) seconds a command may fail.
"""
EXAMPLES = """
- name: Ensure the key is everybody's
  inspection:
    units: [munge.service]
    files: [{path: /etc/munge/munge.key, owner: munge, group: munge, mode: "0400"}]
    commands: [{what: munged seals, argv: [munge, --no-input]}]
"""
RETURN = """
looks: {type: list, returned: always, description: What was looked at, and who must act on what is wrong.}
"""

STARTS_NOT = {"disabled", "masked"}
RUNS = {"active", "reloading", "refreshing"}
COMMAND_TIMEOUT_S = 30
PAUSE_S = 0.5
STARTING_S = 10
SEEN_MAX = 500
UNIT_PROPERTIES = ("LoadState", "ActiveState", "SubState", "UnitFileState")


class Look(NamedTuple):
    """One thing that was looked at.

    Attributes:
        what: What must be so.
        ok: Whether it is.
        seen: What is there instead; empty if it is as it must be.
        who: Who must act if it is not: ``operator`` or ``grid``.
        hint: What they can do; empty if it is as it must be or nobody knows.
    """

    what: str
    ok: bool
    seen: str = ""
    who: str = "operator"
    hint: str = ""


def units(names: list[str]) -> list[Look]:
    """Return a look at each unit, in the same order. What is just starting gets a moment to do so."""
    end = time.monotonic() + STARTING_S
    while True:
        told = properties(names)
        if all(one.get("ActiveState") != "activating" for one in told) or time.monotonic() >= end:
            return [unit(name, one) for name, one in zip(names, told, strict=True)]
        time.sleep(PAUSE_S)


def properties(names: list[str]) -> list[dict[str, str]]:
    """Return what systemd tells of each unit, in the same order; its complaint as LoadState if it
    tells nothing.
    """
    if not names:
        return []
    code, text = run(["systemctl", "show", "--property=" + ",".join(UNIT_PROPERTIES), "--", *names])
    if code != 0:
        return [{"LoadState": text}] * len(names)
    return [
        dict(line.split("=", 1) for line in block.splitlines())
        for block in text.strip().split("\n\n")
    ]


def unit(name: str, told: dict[str, str]) -> Look:
    """Return a look at a unit, given what systemd tells of it."""
    hint = f"Read `journalctl --unit={name}` on this host. `gridstead provider apply` starts what should run."
    what = f"{name} runs, now and after a boot"
    if told.get("LoadState") != "loaded":
        return Look(what, ok=False, seen=f"it is {told.get('LoadState')}", hint=hint)
    state = told.get("ActiveState", "")
    if state not in RUNS:
        return Look(what, ok=False, seen=f"it is {state} ({told.get('SubState')})", hint=hint)
    if told.get("UnitFileState") in STARTS_NOT:
        return Look(what, ok=False, seen=f"it is {told['UnitFileState']}", hint=hint)
    return Look(what, ok=True)


def file(wanted: dict[str, Any]) -> Look:
    """Return a look at a file: that it exists, whose it is, who may read it."""
    path = wanted["path"]
    asked = {key: wanted[key] for key in ("owner", "group", "mode") if wanted.get(key)}
    what = " ".join([path, "is there", *(f"{key} {value}" for key, value in asked.items())])
    hint = "`gridstead provider apply` writes it anew."
    try:
        status = os.stat(path)  # noqa: PTH116 - one call, and no object for each file
    except OSError as err:
        return Look(what, ok=False, seen=str(err.strerror), hint=hint)
    found = {
        "owner": name_of(pwd.getpwuid, status.st_uid),
        "group": name_of(grp.getgrgid, status.st_gid),
        "mode": f"{status.st_mode & 0o7777:04o}",
    }
    other = [f"{key} is {found[key]}" for key, value in asked.items() if found[key] != value]
    return Look(what, ok=not other, seen=", ".join(other), hint=hint if other else "")


def name_of(ask: Any, number: int) -> str:  # noqa: ANN401 - two functions of the standard library
    """Return the name of a user or group, or its number if it has none."""
    try:
        return str(ask(number)[0])
    except KeyError:
        return str(number)


def command(wanted: dict[str, Any]) -> Look:
    """Return a look at what a command says, repeated for a while as long as it is wrong."""
    end = time.monotonic() + (wanted.get("wait_s") or 0)
    while True:
        seen = objection(wanted)
        if not seen:
            return Look(wanted["what"], ok=True)
        if time.monotonic() >= end:
            return Look(wanted["what"], ok=False, seen=seen, who=wanted["who"], hint=wanted["hint"])
        time.sleep(PAUSE_S)


def objection(wanted: dict[str, Any]) -> str:
    """Run a command and return what is wrong, or an empty text."""
    code, text = run(wanted["argv"])
    said = f'"{text.strip()[-SEEN_MAX:]}"'
    if code != 0:
        return f"{wanted['argv'][0]} exited {code}: {said}"
    missing = [
        pattern for pattern in wanted["expect"] if not re.search(pattern, text, re.MULTILINE)
    ]
    if missing:
        return f"{wanted['argv'][0]} does not say {', '.join(missing)}: {said}"
    unwanted = [
        match[0]
        for pattern in wanted["refuse"]
        for match in re.finditer(pattern, text, re.MULTILINE)
    ]
    return f"{wanted['argv'][0]} says {', '.join(unwanted)}" if unwanted else ""


def run(argv: list[str]) -> tuple[int, str]:
    """Return a command's exit code and what it prints; 127 if it is not there, 124 if it takes too
    long.
    """
    try:
        done = subprocess.run(
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
        return 124, f"no end within {COMMAND_TIMEOUT_S} s"
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr


def sentence(looks: list[Look]) -> str:
    """Return all that is wrong on one line; empty if nothing is."""
    wrong = [look for look in looks if not look.ok]
    told = "; ".join(f"{look.what}: {look.seen}" for look in wrong)
    return f"{len(wrong)} of {len(looks)} things are wrong: {told}" if wrong else ""


def main() -> None:
    """Run as an Ansible module."""
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
    asked = module.params
    looks = [*units(asked["units"]), *map(file, asked["files"]), *map(command, asked["commands"])]
    told = [look._asdict() for look in looks]
    wrong = sentence(looks)
    if wrong:
        module.fail_json(msg=wrong, looks=told)
    module.exit_json(changed=False, looks=told)


if __name__ == "__main__":
    main()
