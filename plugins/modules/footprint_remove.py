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
  - Removes everything that a role created on a host, and restores what it replaced, from the record
    of role footprint. Missing parts are no error, so a partly configured host can be cleaned too.
  - Without a record nothing is restored, and what the role replaced stays.
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
      - The footprint, as lists by kind. Paths may be patterns, except those in V(replaced).
      - V(units) return to their state before; V(reloads) are reloaded after a change.
      - V(mounts) are unmounted with everything below them, V(tables) are nftables tables, by family
        and name, V(users) are removed with their groups.
      - V(own) are files and folders that only this role uses, V(folders) are removed only if they
        are empty, innermost first.
      - V(answers) are debconf answers to questions that packages ask before their data is removed,
        as for debconf-set-selections.
      - V(replaced) are files to restore, and folders whose owner and mode to restore.
      - V(data) is removed only with O(remove_data).
      - V(packages) are marked as automatically installed, except those that were manually installed
        before.
      - Accounts and package lists that existed before stay, and debconf answers of packages from
        before do not change.
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
TRIGGERS = (".socket", ".timer")
UNIT_FOLDERS = ("/etc/systemd/", "/etc/tmpfiles.d/")

Run = Callable[..., str]
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


def stop_units(units: list[str], was: Record, run: Run) -> Iterator[Step]:
    """Yield the steps that stop and disable units that did not run before."""
    if not units:
        return
    shown = run("systemctl", "show", "--property=ActiveState,UnitFileState", *units)
    for unit, now in zip(units, states(shown), strict=True):
        name = full_name(unit)
        is_active = now["ActiveState"] not in {"inactive", "failed"}
        if is_active and name not in was.active:
            yield f"{name} stopped", partial(run, "systemctl", "stop", unit)
            # Processes that survive their daemon, for example the steps of jobs.
            kill = partial(run, "systemctl", "kill", "--signal=KILL", unit, expected=(0, 1))
            yield f"{name} emptied", kill
            # A unit that fails now would stay listed without a unit file.
            reset = partial(run, "systemctl", "reset-failed", unit, expected=(0, 1))
            yield f"{name} forgotten", reset
        if now["ActiveState"] == "failed":
            yield f"{name} forgotten", partial(run, "systemctl", "reset-failed", unit)
        if now["UnitFileState"] == "enabled" and name not in was.enabled:
            yield f"{name} disabled", partial(run, "systemctl", "disable", unit)


def enable_units(units: list[str], was: Record, run: Run) -> Iterator[Step]:
    """Yield the steps that enable units again that were enabled before."""
    known = [unit for unit in units if full_name(unit) in was.enabled]
    if not known:
        return
    shown = states(run("systemctl", "show", "--property=UnitFileState", *known))
    for unit, now in zip(known, shown, strict=True):
        if now["UnitFileState"] != "enabled":
            yield f"{full_name(unit)} enabled", partial(run, "systemctl", "enable", unit)


def unmount(points: list[str], mounted: str, run: Run) -> Iterator[Step]:
    """Yield the steps that unmount everything at or below the points, latest mount first.

    Args:
        points: The mount points.
        mounted: The text of /proc/self/mounts.
        run: Runs a command.
    """
    folders = tuple(f"{point}/" for point in points)
    for line in reversed(mounted.splitlines()):
        place = line.split()[1]
        if f"{place}/".startswith(folders):
            yield f"{place} unmounted", partial(run, "umount", "--lazy", place)


def drop_tables(tables: list[str], run: Run) -> Iterator[Step]:
    """Yield the steps that delete tables of nftables."""
    if not tables or shutil.which("nft") is None:
        return
    present = run("nft", "list", "tables").splitlines()
    for table in tables:
        if f"table {table}" in present:
            yield f"table {table} deleted", partial(run, "nft", "delete", "table", *table.split())


def drop_users(users: list[str], was: Record, run: Run) -> Iterator[Step]:
    """Yield the steps that remove accounts and their groups that did not exist before."""
    for name in users:
        if name in was.accounts:
            continue
        if any(account.pw_name == name for account in pwd.getpwall()):
            yield f"account {name} removed", partial(run, "userdel", "--force", name)
        # userdel leaves a group that has other members.
        if any(group.gr_name == name for group in grp.getgrall()):
            yield f"group {name} removed", partial(run, "groupdel", name)


def existing(patterns: Iterable[str]) -> list[Path]:
    """Return the existing paths that match, in their order, including broken links."""
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


def return_files(paths: list[str], was: Record) -> Iterator[Step]:
    """Yield the steps that restore replaced files, and remove those that did not exist before."""
    if not was.exists:
        return
    for path in map(Path, paths):
        before = was.file(str(path))
        if before is None:
            if path.is_file():
                yield f"{path} removed", partial(remove, path)
        elif not is_same(path, *before):
            yield f"{path} as before", partial(restore, path, *before)


def is_same(path: Path, member: tarfile.TarInfo, content: bytes) -> bool:
    """Return whether a file has the content, owner and mode of the record."""
    if not path.exists():
        return member.isdir()
    now = path.stat()
    has_same_access = (
        now.st_mode & 0o7777 == member.mode
        and now.st_uid == member.uid
        and now.st_gid == member.gid
    )
    return has_same_access and (path.is_dir() or path.read_bytes() == content)


def drop_paths(paths: Iterable[Path], folders: list[str]) -> Iterator[Step]:
    """Yield the steps that remove paths, and folders that contain nothing else."""
    removed = set()
    for path in paths:
        removed.add(path)
        yield f"{path} removed", partial(remove, path)
    for folder in map(Path, folders):
        if folder.is_dir() and not folder.is_mount() and removed.issuperset(folder.iterdir()):
            removed.add(folder)
            yield f"{folder} removed", folder.rmdir


def release_packages(packages: list[str], was: Record, run: Run) -> Iterator[Step]:
    """Yield the step that marks packages as automatically installed.

    Packages that were manually installed before the site keep their mark.
    """
    if not was.exists or not packages:
        return
    unwanted = sorted(set(packages) & set(run("apt-mark", "showmanual").split()) - was.manual)
    if unwanted:
        mark = partial(run, "apt-mark", "auto", *unwanted)
        yield f"no longer wanted: {' '.join(unwanted)}", mark


def answer(answers: list[str], was: Record, run: Run) -> Iterator[Step]:
    """Yield the steps that answer debconf questions of packages whose data is removed too."""
    for line in answers:
        package, question, _, value = line.split()
        if not was.exists or package in was.packages:
            continue
        shown = run("debconf-show", package)
        if shown and f"* {question}: {value}" not in shown:
            select = partial(run, "debconf-set-selections", text=line)
            yield f"{question} answered: {value}", select


def stages(
    traces: dict[str, list[str]], was: Record, run: Run, *, remove_data: bool
) -> Iterator[Iterator[Step]]:
    """Yield the stages of a removal, so that no stage needs what an earlier one has removed.

    Each stage reads the state of the host when it starts, and so sees the changes of earlier ones.
    """
    # Sockets and timers stop first, because they would start their services again.
    triggers, others = [], []
    for unit in traces["units"]:
        if unit.endswith(TRIGGERS):
            triggers.append(unit)
        else:
            others.append(unit)
    yield stop_units(triggers, was, run)
    yield stop_units(others, was, run)
    yield unmount(traces["mounts"], Path("/proc/self/mounts").read_text(encoding="utf-8"), run)
    yield drop_tables(traces["tables"], run)
    yield drop_users(traces["users"], was, run)
    yield return_files(traces["replaced"], was)
    patterns = traces["own"] + (traces["data"] if remove_data else [])
    own = [path for path in existing(patterns) if path not in was.lists]
    yield drop_paths(own, traces["folders"])
    yield enable_units(traces["units"], was, run)
    yield answer(traces["answers"] if remove_data else [], was, run)
    yield release_packages(traces["packages"], was, run)


def notify(traces: dict[str, list[str]], changes: list[str], was: Record, run: Run) -> None:
    """Reload systemd and the remaining daemons after a change of their files."""
    text = "\n".join(changes)
    if any(folder in text for folder in UNIT_FOLDERS):
        run("systemctl", "daemon-reload")
    if not changes:
        return
    for unit in traces["reloads"]:
        run("systemctl", "try-reload-or-restart", unit)
    for unit in traces["units"]:
        if full_name(unit) in was.active:
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
        # Links for other init systems belong to the packages.
        environment = {"SYSTEMCTL_SKIP_SYSV": "1"}
        code, out, err = module.run_command(list(argv), data=text, environ_update=environment)
        if code not in expected:
            answer_text = err.strip() or out.strip()
            message = f"could not {' '.join(argv)}: {answer_text}"
            module.fail_json(msg=message, changes=changes)
        return out

    was = Record(Path(module.params["record"]))
    for stage in stages(traces, was, run, remove_data=module.params["remove_data"]):
        for change, act in stage:
            changes.append(change)
            if not module.check_mode:
                act()
    if not module.check_mode:
        notify(traces, changes, was, run)
    kept: list[str] = []
    if not module.params["remove_data"]:
        kept = [pattern for pattern in traces["data"] if existing([pattern])]
    module.exit_json(changed=bool(changes), changes=changes, kept=kept)


if __name__ == "__main__":
    main()
