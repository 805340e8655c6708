# SPDX-License-Identifier: Apache-2.0
"""Writes several files after programs have checked the new content of all of them.

One call of the module writes all files, because each call costs a round trip to the host.
"""

from __future__ import annotations

import json
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gridstead.site.plugins.module_utils.durable_file import write_whole

DOCUMENTATION = """
module: file_set
short_description: Write files after all of them were checked
description:
  - Root owns the files. Parent folders are created with mode 0755. If a check rejects a file, no
    file changes.
options:
  files:
    type: list
    elements: dict
    required: true
    description: The files.
    suboptions:
      path: {type: path, required: true, description: Path of the file.}
      content: {type: str, required: true, description: Content of the file.}
      mode: {type: str, default: "0644", description: Octal mode of the file.}
      check:
        type: list
        elements: str
        default: []
        description:
          - Command that checks the file. The module replaces C(%s) by the path of a file with the
            new content. In check mode the command is skipped if the program is not installed.
      in_force:
        type: path
        description:
          - Copy of the content that the program has loaded. While the copy differs, the file counts
            as changed. Therefore a run repeats what an interrupted run did not finish.
  absent:
    type: list
    elements: path
    default: []
    description: Files that must not exist.
  try_first:
    type: list
    elements: path
    default: []
    description: Files that may lock the operator out of the host. If such a file would change, the
      module changes no file, and lists this file in RV(held). The role then tries the file first.
  pending_changes_file:
    type: path
    description:
      - Path of a note that lists the changed files. The module writes the note before it changes a
        file. A handler removes the note after the programs have loaded the files. Until then the
        files in the note count as changed in every run. Therefore the run after an interrupted run
        reloads the programs.
"""
EXAMPLES = """
- name: Write the settings of sshd
  gridstead.site.file_set:
    files:
      - path: /etc/ssh/sshd_config.d/10-site.conf
        content: "UseDNS no\\n"
        check: [sshd, -t, -f, "%s"]
"""
RETURN = """
changes:
  type: list
  elements: str
  returned: always
  description: Paths of the files that changed or count as changed, and of the removed files.
held:
  type: list
  elements: str
  returned: always
  description: Files of O(try_first) that would change. If there are any, no file changed.
"""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FILE_OPTIONS = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str", "required": True},
    "mode": {"type": "str", "default": "0644"},
    "check": {"type": "list", "elements": "str", "default": []},
    "in_force": {"type": "path"},
}
ARGUMENTS = {
    "files": {"type": "list", "elements": "dict", "required": True, "options": FILE_OPTIONS},
    "absent": {"type": "list", "elements": "path", "default": []},
    "try_first": {"type": "list", "elements": "path", "default": []},
    "pending_changes_file": {"type": "path"},
}


def content_of(path: Path) -> str | None:
    """Return the content of a file; None if it does not exist."""
    return path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else None


def is_up_to_date(file: dict[str, Any]) -> bool:
    """Return whether a file is as requested, and the program that reads the file has loaded it."""
    path = Path(file["path"])
    if file["in_force"] and content_of(Path(file["in_force"])) != file["content"]:
        return False
    if path.is_symlink() or content_of(path) != file["content"]:
        return False
    status = path.stat()
    is_of_root = status.st_uid == 0 and status.st_gid == 0
    return is_of_root and stat.S_IMODE(status.st_mode) == int(file["mode"], 8)


def difference(file: dict[str, Any]) -> dict[str, str]:
    """Return the diff of a file in Ansible's format."""
    path = file["path"]
    before = content_of(Path(path)) or ""
    return {
        "before_header": path,
        "after_header": path,
        "before": before,
        "after": file["content"],
    }


def write(path: Path, file: dict[str, Any]) -> None:
    """Write the content of a file to a path, with the mode of the file. The owner is root."""
    write_whole(path, file["content"].encode(), mode=int(file["mode"], 8), owner=0, group=0)


def with_pending_changes(module: AnsibleModule, changed_paths: list[str]) -> list[str]:
    """Return the paths that changed or are in the note, in the order of the parameter ``files``.

    The note is a file. It lists the paths of the files that the programs have not loaded yet. If a
    path changed, this function writes the returned paths to the note, except in check mode.
    """
    if not module.params["pending_changes_file"]:
        return changed_paths
    note = Path(module.params["pending_changes_file"])
    paths_in_note = json.loads(content_of(note) or "[]")
    pending_paths = []
    for file in module.params["files"]:
        path = file["path"]
        if path in changed_paths or path in paths_in_note:
            pending_paths.append(path)
    if changed_paths and not module.check_mode:
        write_whole(note, json.dumps(pending_paths).encode())
    return pending_paths


def check(module: AnsibleModule, files: list[dict[str, Any]]) -> None:
    """Check each new content with the command of the file. A rejected content ends the module."""
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as folder:
        for number, file in enumerate(files):
            path = Path(folder) / str(number)
            write(path, file)
            argv = [word.replace("%s", str(path)) for word in file["check"]]
            if not argv:
                continue
            program = shutil.which(argv[0], path=PATH)
            if program is None and module.check_mode:
                continue
            code, out, err = module.run_command([program or argv[0], *argv[1:]])
            if code != 0:
                output = err.strip() or out.strip()
                module.fail_json(msg=f"{argv[0]} rejects the new {file['path']}: {output}")


def differences(
    changed_files: list[dict[str, Any]], removed_paths: list[Path]
) -> Iterator[dict[str, str]]:
    """Yield the diffs of the files to write and of the files to remove."""
    for file in changed_files:
        yield difference(file)
    for path in removed_paths:
        yield difference({"path": str(path), "content": ""})


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    changed_files = [file for file in module.params["files"] if not is_up_to_date(file)]
    absent_paths = map(Path, module.params["absent"])
    removed_paths = [path for path in absent_paths if path.is_file() or path.is_symlink()]
    diff = list(differences(changed_files, removed_paths))
    check(module, changed_files)
    changed_paths, held_paths = [], []
    for file in changed_files:
        path = file["path"]
        changed_paths.append(path)
        if path in module.params["try_first"]:
            held_paths.append(path)
    if held_paths:
        module.exit_json(changed=False, changes=[], held=held_paths)
    changes = with_pending_changes(module, changed_paths)
    changes += map(str, removed_paths)
    if not module.check_mode:
        for file in changed_files:
            write(Path(file["path"]), file)
        for path in removed_paths:
            path.unlink()
    module.exit_json(changed=bool(changes), changes=changes, held=held_paths, diff=diff)


if __name__ == "__main__":
    main()
