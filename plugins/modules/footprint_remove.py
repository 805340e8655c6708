# SPDX-License-Identifier: Apache-2.0
"""Removes everything that a role created on a host."""

from __future__ import annotations

import glob
import grp
import os
import pwd
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gridstead.site.plugins.module_utils.durable_file import write_whole
from ansible_collections.gridstead.site.plugins.module_utils.footprint_before import Record

DOCUMENTATION = r"""
module: footprint_remove
short_description: Remove everything that a role created on a host
description:
  - Removes everything that a role created on a host, and restores from the record of role footprint
    what the role replaced. Missing parts are no error, so a partly configured host can be cleaned
    too.
  - Without a record, restores nothing.
options:
  record:
    description: Folder of the record.
    type: path
    required: true
  remove_data:
    description: Whether to remove the data too.
    type: bool
    default: false
  traces:
    description:
      - What the role leaves on a host, as lists by kind. Paths may be patterns, except in
        V(replaced).
      - V(units) are stopped unless they ran before, and disabled unless they were enabled before.
        V(reloads) are units that are reloaded after a change.
      - V(mounts) are unmounted with everything below them. V(tables) are nftables tables by family
        and name. V(users) are removed with their groups.
      - V(own) lists files and folders that only this role uses. V(folders) are removed if they are
        empty; list inner folders first.
      - V(answers) are debconf answers in the format of debconf-set-selections. Packages ask these
        questions before they remove their data.
      - V(replaced) lists files to restore, and folders whose owner and mode to restore.
      - V(data) is removed only with O(remove_data).
      - V(packages) are marked as automatically installed, unless they were marked as manually
        installed before.
      - Earlier accounts and package lists stay. Debconf answers of earlier packages do not change.
    type: dict
    required: true
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Remove everything that role sssd created
  gridstead.site.footprint_remove:
    record: /var/lib/gridstead/before
    traces:
      units: [sssd]
      replaced: [/etc/sssd/sssd.conf]
      packages: [sssd-ldap]
"""

RETURN = r"""
changes:
  description: What changed, one line each.
  type: list
  elements: str
  returned: always
kept:
  description: Data that stays.
  type: list
  elements: str
  returned: always
"""

KINDS = (
    "units",
    "mounts",
    "tables",
    "users",
    "own",
    "replaced",
    "data",
    "folders",
    "reloads",
    "packages",
    "answers",
)
TRIGGER_SUFFIXES = (".path", ".socket", ".timer")
UNIT_FOLDERS = ("/etc/systemd/", "/etc/tmpfiles.d/")

Run = Callable[..., str]
# A step is the description of a change, and the function that makes it.
Step = tuple[str, Callable[[], object]]


def full_name(unit: str) -> str:
    """Return the name of a unit with its suffix."""
    suffixes = (".service", ".socket", ".timer", ".scope", ".target")
    return unit if unit.endswith(suffixes) else f"{unit}.service"


def states(text: str) -> list[dict[str, str]]:
    """Return the properties of each unit, in order, from the output of ``systemctl show``."""
    units = []
    for block in text.strip().split("\n\n"):
        properties = {}
        for line in block.splitlines():
            name, separator, value = line.partition("=")
            if separator:
                properties[name] = value
        units.append(properties)
    return units


def stop_units(units: list[str], before: Record, run: Run) -> Iterator[Step]:
    """Yield the steps that stop and disable units.

    Units that ran before the role are not stopped, and units that were enabled before the role are
    not disabled.
    """
    if not units:
        return
    output = run("systemctl", "show", "--property=ActiveState,UnitFileState", *units)
    for unit, properties in zip(units, states(output), strict=True):
        name = full_name(unit)
        is_active = properties["ActiveState"] not in {"inactive", "failed"}
        if is_active and name not in before.active:
            yield f"{name} stopped", partial(run, "systemctl", "stop", unit)
            # Some processes survive their daemon, for example the steps of jobs.
            kill = partial(run, "systemctl", "kill", "--signal=KILL", unit, expected=(0, 1))
            yield f"{name} emptied", kill
            # A failed unit remains known to systemd even if its unit file is removed.
            reset = partial(run, "systemctl", "reset-failed", unit, expected=(0, 1))
            yield f"{name} forgotten", reset
        if properties["ActiveState"] == "failed":
            yield f"{name} forgotten", partial(run, "systemctl", "reset-failed", unit)
        if properties["UnitFileState"] == "enabled" and name not in before.enabled:
            yield f"{name} disabled", partial(run, "systemctl", "disable", unit)


def enable_units(units: list[str], before: Record, run: Run) -> Iterator[Step]:
    """Yield the steps that enable those units again which were enabled before the role."""
    enabled_before = [unit for unit in units if full_name(unit) in before.enabled]
    if not enabled_before:
        return
    current_states = states(run("systemctl", "show", "--property=UnitFileState", *enabled_before))
    for unit, properties in zip(enabled_before, current_states, strict=True):
        if properties["UnitFileState"] != "enabled":
            yield f"{full_name(unit)} enabled", partial(run, "systemctl", "enable", unit)


def unmount(mount_points: list[str], mounts_text: str, run: Run) -> Iterator[Step]:
    """Yield the steps that unmount everything at or below the mount points, latest mount first.

    Args:
        mount_points: The mount points.
        mounts_text: The text of /proc/self/mounts.
        run: Runs a command.
    """
    folders = tuple(f"{mount_point}/" for mount_point in mount_points)
    for line in reversed(mounts_text.splitlines()):
        _, mount_point, *_ = line.split()
        if f"{mount_point}/".startswith(folders):
            yield f"{mount_point} unmounted", partial(run, "umount", "--lazy", mount_point)


def drop_tables(tables: list[str], run: Run) -> Iterator[Step]:
    """Yield the steps that delete tables of nftables."""
    if not tables or shutil.which("nft") is None:
        return
    present_tables = run("nft", "list", "tables").splitlines()
    for table in tables:
        if f"table {table}" in present_tables:
            yield f"table {table} deleted", partial(run, "nft", "delete", "table", *table.split())


def drop_users(users: list[str], before: Record, run: Run) -> Iterator[Step]:
    """Yield the steps that remove users and their groups, unless they existed before the role."""
    for name in users:
        if name in before.accounts:
            continue
        if any(account.pw_name == name for account in pwd.getpwall()):
            yield f"account {name} removed", partial(run, "userdel", "--force", name)
        # userdel leaves a group that has other members.
        if any(group.gr_name == name for group in grp.getgrall()):
            yield f"group {name} removed", partial(run, "groupdel", name)


def existing_paths(patterns: Iterable[str]) -> list[Path]:
    """Return the existing paths that match the patterns, in order, including broken links."""
    paths: list[Path] = []
    for pattern in patterns:
        # Path.glob skips broken links.
        matches = glob.glob(pattern, include_hidden=True)  # noqa: PTH207 - see the line above
        paths += map(Path, sorted(matches))
    return paths


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with everything in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def restore(path: Path, member: tarfile.TarInfo, content: bytes) -> None:
    """Restore a file, or the owner and mode of a folder."""
    if path.is_dir() and member.isdir():
        os.chown(path, member.uid, member.gid)
        path.chmod(member.mode)
        return
    write_whole(path, content, mode=member.mode, owner=member.uid, group=member.gid)


def restore_files(paths: list[str], before: Record) -> Iterator[Step]:
    """Yield the steps that restore replaced files, and remove files that did not exist before."""
    if not before.exists:
        return
    for path in map(Path, paths):
        recorded_file = before.file(str(path))
        if recorded_file is None:
            if path.is_file():
                yield f"{path} removed", partial(remove, path)
        elif not is_same(path, *recorded_file):
            yield f"{path} as before", partial(restore, path, *recorded_file)


def is_same(path: Path, member: tarfile.TarInfo, content: bytes) -> bool:
    """Return whether a file has the content, owner and mode of the record."""
    if not path.exists():
        return member.isdir()
    status = path.stat()
    has_same_access = (
        status.st_mode & 0o7777 == member.mode
        and status.st_uid == member.uid
        and status.st_gid == member.gid
    )
    return has_same_access and (path.is_dir() or path.read_bytes() == content)


def drop_paths(paths: Iterable[Path], folders: list[str]) -> Iterator[Step]:
    """Yield the steps that remove paths, and folders that are empty without these paths."""
    removed_paths = set()
    for path in paths:
        removed_paths.add(path)
        yield f"{path} removed", partial(remove, path)
    for folder in map(Path, folders):
        if folder.is_dir() and not folder.is_mount() and removed_paths.issuperset(folder.iterdir()):
            removed_paths.add(folder)
            yield f"{folder} removed", folder.rmdir


def mark_packages(packages: list[str], before: Record, run: Run) -> Iterator[Step]:
    """Yield the step that marks packages as automatically installed.

    Packages that were manually installed before the site keep their mark.
    """
    if not before.exists or not packages:
        return
    newly_manual = set(run("apt-mark", "showmanual").split()) - before.manual
    packages_to_mark = sorted(newly_manual.intersection(packages))
    if packages_to_mark:
        mark = partial(run, "apt-mark", "auto", *packages_to_mark)
        yield f"no longer wanted: {' '.join(packages_to_mark)}", mark


def answer_questions(answers: list[str], before: Record, run: Run) -> Iterator[Step]:
    """Yield the steps that answer debconf questions of packages whose data is removed too."""
    for line in answers:
        package, question, _, value = line.split()
        if not before.exists or package in before.packages:
            continue
        current_answers = run("debconf-show", package)
        if current_answers and f"* {question}: {value}" not in current_answers:
            select = partial(run, "debconf-set-selections", text=line)
            yield f"{question} answered: {value}", select


def stages(
    traces: dict[str, list[str]], before: Record, run: Run, *, remove_data: bool
) -> Iterator[Iterator[Step]]:
    """Yield the stages of a removal. No stage needs anything that an earlier stage removes.

    Each stage reads the state of the host when it starts, after the changes of earlier stages.
    """
    data_patterns, questions = [], []
    if remove_data:
        data_patterns, questions = traces["data"], traces["answers"]
    # Sockets, timers and paths stop first, because they would start their services again.
    trigger_units, other_units = [], []
    for unit in traces["units"]:
        if unit.endswith(TRIGGER_SUFFIXES):
            trigger_units.append(unit)
        else:
            other_units.append(unit)
    yield stop_units(trigger_units, before, run)
    yield stop_units(other_units, before, run)
    yield unmount(traces["mounts"], Path("/proc/self/mounts").read_text(encoding="utf-8"), run)
    yield drop_tables(traces["tables"], run)
    yield drop_users(traces["users"], before, run)
    yield restore_files(traces["replaced"], before)
    patterns = traces["own"] + data_patterns
    paths = [path for path in existing_paths(patterns) if path not in before.lists]
    yield drop_paths(paths, traces["folders"])
    yield enable_units(traces["units"], before, run)
    yield answer_questions(questions, before, run)
    yield mark_packages(traces["packages"], before, run)


def notify(traces: dict[str, list[str]], changes: list[str], before: Record, run: Run) -> None:
    """Make systemd and the remaining daemons load their files again, if anything changed."""
    change_list = "\n".join(changes)
    if any(folder in change_list for folder in UNIT_FOLDERS):
        run("systemctl", "daemon-reload")
    if not changes:
        return
    for unit in traces["reloads"]:
        run("systemctl", "try-reload-or-restart", unit)
    for unit in traces["units"]:
        if full_name(unit) in before.active:
            run("systemctl", "restart", unit)


LISTS = {kind: {"type": "list", "elements": "str", "default": []} for kind in KINDS}
ARGUMENTS = {
    "record": {"type": "path", "required": True},
    "remove_data": {"type": "bool", "default": False},
    "traces": {"type": "dict", "required": True, "options": LISTS},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    traces, changes = module.params["traces"], []

    def run(*argv: str, expected: tuple[int, ...] = (0,), text: str | None = None) -> str:
        # systemctl must not change the links of other init systems, which belong to packages.
        environment = {"SYSTEMCTL_SKIP_SYSV": "1"}
        code, out, err = module.run_command(list(argv), data=text, environ_update=environment)
        if code not in expected:
            output = err.strip() or out.strip()
            message = f"could not run {' '.join(argv)}: {output}"
            module.fail_json(msg=message, changes=changes)
        return out

    before = Record(Path(module.params["record"]))
    for stage in stages(traces, before, run, remove_data=module.params["remove_data"]):
        for change, make_change in stage:
            changes.append(change)
            if not module.check_mode:
                make_change()
    if not module.check_mode:
        notify(traces, changes, before, run)
    kept_patterns: list[str] = []
    if not module.params["remove_data"]:
        kept_patterns = [pattern for pattern in traces["data"] if existing_paths([pattern])]
    module.exit_json(changed=bool(changes), changes=changes, kept=kept_patterns)


if __name__ == "__main__":
    main()
