# SPDX-License-Identifier: Apache-2.0
"""Checks the mounts of the shared storage.

State ``spare`` checks that no job would lose files if the storage is mounted again. State
``answer`` waits until the storage is mounted and answers.

A path is available if it is a mount point and its server answers. A path that is not mounted, or
whose server no longer has the file system (ESTALE, ENOTCONN), contains no open files, so mounting
it again is safe. A path that does not answer may recover, with all open files of jobs. The module
starts a program for each path, because a request to a server that is down may block for ever.
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
short_description: Check the mount of the shared storage
description: Changes nothing. Fails if the check fails; the message says who must do what.
options:
  paths: {type: list, elements: path, required: true, description: Mount points of the file system.}
  made_of: {type: path, required: true, description: File with the parameters of the mount.}
  in_force:
    type: path
    required: true
    description: Copy of C(made_of) with which the mount was started. It does not exist while
      nothing is mounted.
  must:
    type: str
    choices: [spare, answer]
    required: true
    description:
      - C(spare) fails if a job would lose open files when the storage is mounted again. C(answer)
        fails if the storage is not available at all mount points.
  wait_s:
    type: int
    default: 150
    description: Seconds to wait for the storage; a stop may take 90.
  answer_s:
    type: int
    default: 20
    description: Seconds to wait for an answer; a busy server needs less.
"""
EXAMPLES = """
- name: Wait for the file system
  gridstead.site.shared_storage_mount:
    paths: [/srv/shared, /home]
    made_of: /etc/gridstead/storage.mounts
    in_force: /run/gridstead-storage.mounts
    must: answer
"""
RETURN = """
troubles:
  type: dict
  returned: always
  description: What is wrong with each path that is not available.
"""

MOUNTS = Path("/proc/self/mounts")
STEP_DAEMONS = ["pgrep", "--full", "--list-full", r"^slurmstepd: \["]
NOT_MOUNTED = "not mounted"
# ESTALE and ENOTCONN, as programs print them.
DEAD = {NOT_MOUNTED, "Stale file handle", "Transport endpoint is not connected"}
PAUSE_S = 0.5


def text_of(path: str) -> str:
    """Return the content of a file; empty if it does not exist."""
    return Path(path).read_text(encoding="utf-8") if Path(path).is_file() else ""


def places_of(text: str) -> list[str]:
    """Return the mount points of a mount with these parameters.

    Example:
        >>> directories = '[{"name": "home", "path": "/home"}]'
        >>> places_of('["mount -t nfs4 a:/ /srv/shared", ' + directories + ', false, []]')
        ['/srv/shared', '/home']
    """
    if not text:
        return []
    command, directories, *_ = json.loads(text)
    places = [command.split()[-1]]
    return places + [directory["path"] for directory in directories]


def troubles_of(paths: list[str], answer_s: int) -> dict[str, str]:
    """Return what is wrong with each path that is not available."""
    mounted = set()
    for line in MOUNTS.read_text(encoding="utf-8").splitlines():
        mounted.add(line.split()[1])
    troubles, processes = {}, {}
    for path in paths:
        if path in mounted:
            processes[path] = ask(path)
        else:
            troubles[path] = NOT_MOUNTED
    end = time.monotonic() + answer_s
    for path, process in processes.items():
        try:
            _, err = process.communicate(timeout=max(0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()  # without wait(), which may block too
            troubles[path] = f"no answer within {answer_s} s"
        else:
            if process.returncode != 0:
                troubles[path] = err.strip().rpartition(": ")[2]
    return troubles


def ask(path: str) -> subprocess.Popen[str]:
    """Start a program that queries the server of a path, and bypasses the kernel's cache."""
    return subprocess.Popen(
        ["stat", "--cached=never", "--", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )


def jobs(module: AnsibleModule) -> list[str]:
    """Return the jobs of this host, by the titles of their step daemons."""
    code, text, err = module.run_command(STEP_DAEMONS)
    if code > 1:  # 1: there are none
        module.fail_json(msg=f"could not look for jobs: {err.strip()}")
    return [line.partition("slurmstepd: ")[2] for line in text.splitlines()]


def spare(module: AnsibleModule) -> None:
    """Fail if a job may have files open on a present or a future mount point."""
    running = jobs(module)
    present = places_of(text_of(module.params["in_force"]))
    paths = list(dict.fromkeys([*present, *module.params["paths"]]))
    # Without jobs no path is queried: a program that waits for an answer would block the unmount.
    troubles = troubles_of(paths, module.params["answer_s"]) if running else {}
    if running and any(troubles.get(path) not in DEAD for path in paths):
        message = (
            "The shared storage was not mounted again, because these jobs would lose their open"
            f" files: {', '.join(running)}. Wait until they end or cancel them, and run this again;"
            " playbooks/drain.yml prevents new jobs."
        )
        module.fail_json(troubles=troubles, msg=message)
    module.exit_json(changed=False, troubles=troubles)


def missing(module: AnsibleModule) -> dict[str, str]:
    """Return what is wrong with each path.

    The old mount is not queried if its parameters have changed, because it is about to be replaced.
    """
    if text_of(module.params["made_of"]) != text_of(module.params["in_force"]):
        return dict.fromkeys(module.params["paths"], "not mounted with the new parameters")
    return troubles_of(module.params["paths"], module.params["answer_s"])


def answer(module: AnsibleModule) -> None:
    """Fail if the storage is not available within ``wait_s`` seconds."""
    end = time.monotonic() + module.params["wait_s"]
    troubles = missing(module)
    while troubles and time.monotonic() < end:
        time.sleep(PAUSE_S)
        troubles = missing(module)
    if not troubles:
        module.exit_json(changed=False, troubles={})
    listed = ", ".join(f"{path}: {why}" for path, why in troubles.items())
    message = (
        f"The shared storage is not available after {module.params['wait_s']} s ({listed}). The"
        " operator of its server must check that the server runs and accepts this host; journalctl"
        " --unit=gridstead-shared-storage on this host shows the output of mount. If the server"
        " works, systemctl restart gridstead-shared-storage mounts the storage again. Then run this"
        " again."
    )
    module.fail_json(troubles=troubles, msg=message)


def main() -> None:
    """Run the module."""
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
