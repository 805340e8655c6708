# SPDX-License-Identifier: Apache-2.0
"""Files that belong together have their contents, each checked by its own program before any of
them changes.

One round trip for all of them: a task for each file is what a run that changes nothing spends its
time on.
"""

from __future__ import annotations

import json
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_file import write_whole

DOCUMENTATION = """
module: file_set
short_description: Files with given contents, all checked before any is replaced
description:
  - Root owns the files. Folders above them are made, mode 0755. If a check refuses one of them, all stay as they are.
options:
  files:
    type: list
    elements: dict
    required: true
    description: The files.
    suboptions:
      path: {type: path, required: true, description: Where it is.}
      content: {type: str, required: true, description: What is in it.}
      mode: {type: str, default: "0644", description: Its mode, octal.}
      check:
        type: list
        elements: str
        default: []
        description:
          - A command that accepts the file. C(%s) in it is the new content's place. A check run on a host that lacks
            the program leaves it out.
      in_force:
        type: path
        description:
          - Where the file's program leaves a copy of what it has taken. While that is another the file counts as
            changed, so that what a run could not end the next one does.
  absent:
    type: list
    elements: path
    default: []
    description: Files that must not be there.
  try_first:
    type: list
    elements: path
    default: []
    description: Files that may lock somebody out. If one of them would change, none does, and C(held) names it.
  unsettled:
    type: path
    description:
      - Where it is noted which files changed, before the first of them does. What is noted counts as changed in each
        run until somebody removes the note, as handlers do when the programs know; so a run that is killed in between
        does not leave them with what was before.
"""
EXAMPLES = """
- name: Ensure sshd has its settings
  file_set:
    files:
      - {path: /etc/ssh/sshd_config.d/10-site.conf, content: "UseDNS no\\n", check: [sshd, -t, -f, "%s"]}
"""
RETURN = """
changes: {type: list, elements: str, returned: always, description: Paths of the files that changed.}
held: {type: list, elements: str, returned: always, description: Files of try_first that would change. None has.}
"""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SPECIFICATION = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str", "required": True},
    "mode": {"type": "str", "default": "0644"},
    "check": {"type": "list", "elements": "str", "default": []},
    "in_force": {"type": "path"},
}


def content_of(path: Path) -> str | None:
    """Return what is in a file; None if there is none."""
    return path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else None


def is_as_wanted(wanted: dict[str, Any]) -> bool:
    """Return whether a file has its content, its mode and its owner, and its program has taken it."""
    path = Path(wanted["path"])
    if wanted["in_force"] and content_of(Path(wanted["in_force"])) != wanted["content"]:
        return False
    if path.is_symlink() or content_of(path) != wanted["content"]:
        return False
    status = path.stat()
    return (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (
        int(wanted["mode"], 8),
        0,
        0,
    )


def difference(wanted: dict[str, Any]) -> dict[str, str]:
    """Return what Ansible shows of a file's change."""
    path = wanted["path"]
    before = content_of(Path(path)) or ""
    return {
        "before_header": path,
        "after_header": path,
        "before": before,
        "after": wanted["content"],
    }


def write(place: Path, wanted: dict[str, Any]) -> None:
    """The file at the place has the content, the mode and the owner."""
    write_whole(place, wanted["content"].encode(), mode=int(wanted["mode"], 8), owner=0, group=0)


def with_unsettled(module: AnsibleModule, changed: list[str]) -> list[str]:
    """Return the paths that changed or are noted, in the order of the files, which are noted now."""
    if not module.params["unsettled"]:
        return changed
    note = Path(module.params["unsettled"])
    noted = json.loads(content_of(note) or "[]")
    found = [one["path"] for one in module.params["files"] if one["path"] in {*changed, *noted}]
    if changed and not module.check_mode:
        write_whole(note, json.dumps(found).encode())
    return found


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": SPECIFICATION,
            },
            "absent": {"type": "list", "elements": "path", "default": []},
            "try_first": {"type": "list", "elements": "path", "default": []},
            "unsettled": {"type": "path"},
        },
        supports_check_mode=True,
    )
    changed = [wanted for wanted in module.params["files"] if not is_as_wanted(wanted)]
    gone = [
        path for path in map(Path, module.params["absent"]) if path.is_file() or path.is_symlink()
    ]
    differences = [difference(wanted) for wanted in changed]
    differences += [difference({"path": str(path), "content": ""}) for path in gone]
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as folder:
        new = [Path(folder) / str(number) for number in range(len(changed))]
        for wanted, place in zip(changed, new, strict=True):
            write(place, wanted)
            argv = [word.replace("%s", str(place)) for word in wanted["check"]]
            program = shutil.which(argv[0], path=PATH) if argv else None
            if not argv or (module.check_mode and program is None):
                continue
            code, out, err = module.run_command([program or argv[0], *argv[1:]])
            if code != 0:
                module.fail_json(
                    msg=f"{argv[0]} refuses the new {wanted['path']}: {err.strip() or out.strip()}"
                )
    held = [wanted["path"] for wanted in changed if wanted["path"] in module.params["try_first"]]
    if held:
        module.exit_json(changed=False, changes=[], held=held)
    changes = with_unsettled(module, [wanted["path"] for wanted in changed]) + [
        str(path) for path in gone
    ]
    for wanted in () if module.check_mode else changed:
        write(Path(wanted["path"]), wanted)
    for path in () if module.check_mode else gone:
        path.unlink()
    module.exit_json(changed=bool(changes), changes=changes, held=held, diff=differences)


if __name__ == "__main__":
    main()
