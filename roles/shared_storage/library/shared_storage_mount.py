# SPDX-License-Identifier: Apache-2.0
"""Tell whether the shared storage may be mounted anew under the jobs of a host, or wait until it is
there.

A place is there if it is a mount and answers. One that is no mount, or says that its server knows
it no more, holds no job's files: mounted anew it can only get better. One that says nothing may be
well in a moment, with all that jobs have open. A program of its own asks each place, because
whoever asks a server that is away may wait for ever.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: shared_storage_mount
short_description: Look at the mount of the shared storage
description: Changes nothing. Fails if it is not as it must be, and says who can do what.
options:
  paths: {type: list, elements: path, required: true, description: Where the file system is to be mounted.}
  made_of: {type: path, required: true, description: The file that says what a mount is made of.}
  in_force:
    type: path
    required: true
    description: The copy of it that the mount was started with. It is not there while nothing is mounted.
  must:
    type: str
    choices: [spare, answer]
    required: true
    description:
      - C(spare), no job has files on it that it would lose if it were mounted anew; or C(answer), what is to be mounted
        is there at all its places.
  wait_s: {type: int, default: 150, description: How long it may take until it is there; a stop may take 90.}
  answer_s: {type: int, default: 20, description: How long a place may take to answer; longer than a busy server takes.}
"""
EXAMPLES = """
- name: Wait for the file system
  shared_storage_mount:
    paths: [/srv/shared, /home]
    made_of: /etc/gridstead/storage.mounts
    in_force: /run/gridstead-storage.mounts
    must: answer
"""
RETURN = """
troubles: {type: dict, returned: always, description: By place, why it is not there. Those that are well are left out.}
"""

MOUNTS = Path("/proc/self/mounts")
STEP_DAEMONS = ["pgrep", "--full", "--list-full", r"^slurmstepd: \["]
NOT_MOUNTED = "not mounted"
# ESTALE and ENOTCONN, as programs tell them.
DEAD = {NOT_MOUNTED, "Stale file handle", "Transport endpoint is not connected"}
PAUSE_S = 0.5


def text_of(path: str) -> str:
    """Return what is in a file; nothing if there is none."""
    return Path(path).read_text(encoding="utf-8") if Path(path).is_file() else ""


def places_of(text: str) -> list[str]:
    """Return where a mount is that was started with this.

    Example:
        >>> places_of('["mount -t nfs4 a:/ /srv/shared", [{"name": "home", "path": "/home"}], false, []]')
        ['/srv/shared', '/home']
    """
    if not text:
        return []
    command, directories, *_ = json.loads(text)
    return [command.split()[-1], *(one["path"] for one in directories)]


def troubles_of(paths: list[str], answer_s: int) -> dict[str, str]:
    """Return why each place is not there, without those that are well."""
    mounted = {line.split()[1] for line in MOUNTS.read_text(encoding="utf-8").splitlines()}
    found = {path: NOT_MOUNTED for path in paths if path not in mounted}
    asked = {path: ask(path) for path in paths if path in mounted}
    end = time.monotonic() + answer_s
    for path, process in asked.items():
        try:
            _, said = process.communicate(timeout=max(0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()  # and not waited for: it may not end either
            found[path] = f"no answer within {answer_s} s"
        else:
            if process.returncode != 0:
                found[path] = said.strip().rpartition(": ")[2]
    return found


def ask(path: str) -> subprocess.Popen[str]:
    """Return a program that asks the server of a place for it, and not what the kernel remembers."""
    return subprocess.Popen(
        ["stat", "--cached=never", "--", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )


def jobs(module: AnsibleModule) -> list[str]:
    """Return the jobs of this host by their step daemons, as Slurm names them."""
    code, text, err = module.run_command(STEP_DAEMONS)
    if code > 1:  # 1: there are none
        module.fail_json(msg=f"could not look for jobs: {err.strip()}")
    return [line.partition("slurmstepd: ")[2] for line in text.splitlines()]


def spare(module: AnsibleModule) -> None:
    """Fail while a job may have files on one of the places, of what is mounted or of what is to be."""
    found = jobs(module)
    places = list(
        dict.fromkeys([*places_of(text_of(module.params["in_force"])), *module.params["paths"]])
    )
    # Without jobs nothing is asked: who still waits for a mount's answer keeps it from its end.
    troubles = troubles_of(places, module.params["answer_s"]) if found else {}
    if found and any(troubles.get(path) not in DEAD for path in places):
        module.fail_json(
            troubles=troubles,
            msg=(
                "The shared storage stays mounted as it is: if it were mounted anew here, jobs would lose their open "
                f"files: {', '.join(found)}. Wait for them or cancel them, and run this again; "
                "playbooks/drain.yml keeps others away."
            ),
        )
    module.exit_json(changed=False, troubles=troubles)


def missing(module: AnsibleModule) -> dict[str, str]:
    """Return why each place is not there; one that is still mounted as before is not asked, as it
    is to end.
    """
    if text_of(module.params["made_of"]) != text_of(module.params["in_force"]):
        return dict.fromkeys(module.params["paths"], "not mounted as it is to be")
    return troubles_of(module.params["paths"], module.params["answer_s"])


def answer(module: AnsibleModule) -> None:
    """Fail if what is to be mounted is not there after a while."""
    end = time.monotonic() + module.params["wait_s"]
    while troubles := missing(module):
        if time.monotonic() >= end:
            break
        time.sleep(PAUSE_S)
    else:
        module.exit_json(changed=False, troubles={})
    told = ", ".join(f"{path}: {why}" for path, why in troubles.items())
    module.fail_json(
        troubles=troubles,
        msg=(
            f"The shared storage is not there after {module.params['wait_s']} s ({told}). Whoever runs its server must "
            "see that it is up and lets this host in; journalctl --unit=gridstead-shared-storage on this host has the "
            "words of mount. If the server is well, systemctl restart gridstead-shared-storage mounts anew. Then run "
            "this again."
        ),
    )


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "path", "required": True},
            "made_of": {"type": "path", "required": True},
            "in_force": {"type": "path", "required": True},
            "must": {"type": "str", "choices": ["spare", "answer"], "required": True},
            "wait_s": {"type": "int", "default": 150},
            "answer_s": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    {"spare": spare, "answer": answer}[module.params["must"]](module)


if __name__ == "__main__":
    main()
