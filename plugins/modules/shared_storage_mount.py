# SPDX-License-Identifier: Apache-2.0
"""Checks the mounts of the shared storage.

With ``must: allow_remount`` the module checks that no job would lose open files if the storage is
mounted again. With ``must: answer`` it waits until the storage is mounted and its server answers.

While jobs run, a path may be mounted again only in three cases: the path is not mounted, the server
no longer has the file system (ESTALE), or the process that serves the mount has ended (ENOTCONN).
In these cases a job has no open files that still work. If the server does not answer, the path is
not mounted again, because the server may recover. Then the open files of the jobs work again.

The module starts a program for each path, because a request to a server that is down may block
forever.
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
description: Changes nothing. Fails if the check fails. The message says who must act and how.
options:
  paths: {type: list, elements: path, required: true, description: Mount points of the file system.}
  parameters_file:
    type: path
    required: true
    description: File with the new parameters of the mount.
  in_force:
    type: path
    required: true
    description: Copy of C(parameters_file) from the time of the mount. The copy does not exist
      while nothing is mounted.
  must:
    type: str
    choices: [allow_remount, answer]
    required: true
    description:
      - C(allow_remount) fails if a job would lose open files when the storage is mounted again.
        C(answer) fails if the storage is not available at all mount points.
  wait_s:
    type: int
    default: 150
    description: Seconds to wait for the storage. Unmounting may take 90 of them.
  answer_s:
    type: int
    default: 20
    description: Seconds to wait for the server's answer. Even a busy server answers in this time.
"""
EXAMPLES = """
- name: Wait for the file system
  gridstead.site.shared_storage_mount:
    paths: [/srv/shared, /home]
    parameters_file: /etc/gridstead/storage.mounts
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
# The messages of ESTALE and ENOTCONN, and of a path that is not mounted.
WITHOUT_OPEN_FILES = {NOT_MOUNTED, "Stale file handle", "Transport endpoint is not connected"}
POLL_INTERVAL_S = 0.5


def text_of(path: str) -> str:
    """Return the content of a file, or an empty text if the file does not exist."""
    return Path(path).read_text(encoding="utf-8") if Path(path).is_file() else ""


def mount_points_of(text: str) -> list[str]:
    """Return the mount points in the parameters of a mount. Empty if the text is empty.

    Example:
        >>> directories = '[{"name": "home", "path": "/home"}]'
        >>> mount_points_of('["mount -t nfs4 a:/ /srv/shared", ' + directories + ', false, []]')
        ['/srv/shared', '/home']
    """
    if not text:
        return []
    command, directories, *_ = json.loads(text)
    main_mount_point = command.split()[-1]  # the last argument of the command
    paths = [directory["path"] for directory in directories]
    return [main_mount_point, *paths]


def troubles_of(paths: list[str], answer_s: int) -> dict[str, str]:
    """Return what is wrong with each path that is not available."""
    mounted_paths = set()
    for line in MOUNTS.read_text(encoding="utf-8").splitlines():
        _, mount_point, *_ = line.split()
        mounted_paths.add(mount_point)
    troubles, processes = {}, {}
    for path in paths:
        if path in mounted_paths:
            processes[path] = start_query(path)
        else:
            troubles[path] = NOT_MOUNTED
    deadline = time.monotonic() + answer_s
    for path, process in processes.items():
        try:
            _, err = process.communicate(timeout=max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()  # without wait(), which may block too
            troubles[path] = f"no answer within {answer_s} s"
        else:
            if process.returncode != 0:
                troubles[path] = err.strip().rpartition(": ")[2]
    return troubles


def start_query(path: str) -> subprocess.Popen[str]:
    """Start a program that queries the server of a path and does not use the kernel's cache."""
    return subprocess.Popen(
        ["stat", "--cached=never", "--", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )


def step_daemons(module: AnsibleModule) -> list[str]:
    """Return the titles of the step daemons on this host, such as ``[12.batch]`` for job 12."""
    code, text, err = module.run_command(STEP_DAEMONS)
    if code > 1:  # pgrep exits with 1 if no process matches
        module.fail_json(msg=f"could not look for jobs: {err.strip()}")
    return [line.partition("slurmstepd: ")[2] for line in text.splitlines()]


def check_remount(module: AnsibleModule) -> None:
    """Fail if a job may have open files on a mount point of the old or the new parameters."""
    daemons = step_daemons(module)
    old_paths = mount_points_of(text_of(module.params["in_force"]))
    paths = list(dict.fromkeys([*old_paths, *module.params["paths"]]))
    if not daemons:
        # Paths are not queried: a program that waits for an answer would block the unmount.
        module.exit_json(changed=False, troubles={})
    troubles = troubles_of(paths, module.params["answer_s"])
    # A path whose server does not answer counts as in use, because the server may recover.
    paths_in_use = [path for path in paths if troubles.get(path) not in WITHOUT_OPEN_FILES]
    if paths_in_use:
        message = (
            "The shared storage was not mounted again, because these jobs would lose their open"
            f" files: {', '.join(daemons)}. Run playbooks/drain.yml to prevent new jobs, wait"
            " until the jobs end or cancel them, and run this playbook again."
        )
        module.fail_json(troubles=troubles, msg=message)
    module.exit_json(changed=False, troubles=troubles)


def mount_troubles(module: AnsibleModule) -> dict[str, str]:
    """Return what is wrong with each path. Omit paths that are available as configured."""
    if text_of(module.params["parameters_file"]) != text_of(module.params["in_force"]):
        return dict.fromkeys(module.params["paths"], "not mounted with the new parameters")
    return troubles_of(module.params["paths"], module.params["answer_s"])


def wait_for_answer(module: AnsibleModule) -> None:
    """Fail if the storage is not available within ``wait_s`` seconds."""
    deadline = time.monotonic() + module.params["wait_s"]
    troubles = mount_troubles(module)
    while troubles and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
        troubles = mount_troubles(module)
    if not troubles:
        module.exit_json(changed=False, troubles={})
    trouble_list = ", ".join(f"{path}: {trouble}" for path, trouble in troubles.items())
    message = (
        f"The shared storage is not available after {module.params['wait_s']} s ({trouble_list})."
        " The operator of its server must check that the server runs and accepts this host;"
        " journalctl --unit=gridstead-shared-storage on this host shows the output of mount. If"
        " the server works, systemctl restart gridstead-shared-storage mounts the storage again."
        " Then run this playbook again."
    )
    module.fail_json(troubles=troubles, msg=message)


CHECKS = {"allow_remount": check_remount, "answer": wait_for_answer}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "path", "required": True},
            "parameters_file": {"type": "path", "required": True},
            "in_force": {"type": "path", "required": True},
            "must": {"type": "str", "choices": list(CHECKS), "required": True},
            "wait_s": {"type": "int", "default": 150},
            "answer_s": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    CHECKS[module.params["must"]](module)


if __name__ == "__main__":
    main()
