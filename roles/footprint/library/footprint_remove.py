# SPDX-License-Identifier: Apache-2.0
"""Take a role's footprint off a host."""

from __future__ import annotations

import glob
import grp
import os
import pwd
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_file import write_whole
from ansible.module_utils.footprint_before import Record

DOCUMENTATION = r"""
module: footprint_remove
short_description: A role's footprint off a host
description:
  - Removes what a role has put on a host, and brings back what it has replaced, as the record of role footprint has it.
    What is not there is no error, so a host that was built by half is cleaned like any other.
  - Without a record nothing is brought back and what the role has replaced stays.
options:
  record:
    description: Folder of the record.
    type: path
    required: true
  remove_data:
    description: Whether the data goes too.
    type: bool
    default: false
  traces:
    description:
      - The footprint, as lists by kind. Paths may be patterns, except those that were replaced.
      - V(units) are as they were before; V(reloads) must hear of a change.
      - V(mounts) go with all below them, V(tables) are of nftables, by family and name, V(users) go with their groups.
      - V(own) are files and folders that nobody else uses, V(folders) go only when they are empty, innermost first.
      - V(answers) to questions that packages ask before they go with their data, as debconf-set-selections has them.
      - V(replaced) are files that come back as they were, and folders that get back their rights.
      - V(data) goes only with O(remove_data).
      - V(packages) are marked as no longer wanted, but those that somebody had asked for.
      - Accounts and lists of apt's that were there before stay, and packages that were are not answered.
    type: dict
    required: true
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Ensure nothing of role sssd is left
  footprint_remove:
    record: /var/lib/gridstead/before
    traces:
      units: [sssd]
      replaced: [/etc/sssd/sssd.conf]
      packages: [sssd-ldap]
"""

RETURN = r"""
changes:
  description: What changed, a line each.
  type: list
  elements: str
  returned: always
kept:
  description: Data that is still there.
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
    """Return a unit's name as systemctl lists it."""
    return (
        unit
        if unit.endswith((".service", ".socket", ".timer", ".scope", ".target"))
        else f"{unit}.service"
    )


def states(text: str) -> list[dict[str, str]]:
    """Return the properties of each unit, in the order asked for, from what ``systemctl show``
    prints.
    """
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    return [dict(line.split("=", 1) for line in block if "=" in line) for block in blocks]


def stop_units(units: list[str], was: Record, run: Run) -> Iterator[Step]:
    """Yield what ends units that did not run before, and keeps them from starting again."""
    if not units:
        return
    properties = "--property=ActiveState,UnitFileState"
    for unit, now in zip(units, states(run("systemctl", "show", properties, *units)), strict=True):
        name = full_name(unit)
        if now["ActiveState"] not in {"inactive", "failed"} and name not in was.active:
            yield f"{name} stopped", lambda unit=unit: run("systemctl", "stop", unit)
            # What outlives its daemon, as steps of jobs do.
            yield (
                f"{name} emptied",
                lambda unit=unit: run("systemctl", "kill", "--signal=KILL", unit, expected=(0, 1)),
            )
            # A unit that ends badly would be listed without a file.
            yield (
                f"{name} forgotten",
                lambda unit=unit: run("systemctl", "reset-failed", unit, expected=(0, 1)),
            )
        if now["ActiveState"] == "failed":
            yield f"{name} forgotten", lambda unit=unit: run("systemctl", "reset-failed", unit)
        if now["UnitFileState"] == "enabled" and name not in was.enabled:
            yield f"{name} disabled", lambda unit=unit: run("systemctl", "disable", unit)


def enable_units(units: list[str], was: Record, run: Run) -> Iterator[Step]:
    """Yield what enables units again that were enabled before."""
    known = [unit for unit in units if full_name(unit) in was.enabled]
    if not known:
        return
    for unit, now in zip(
        known, states(run("systemctl", "show", "--property=UnitFileState", *known)), strict=True
    ):
        if now["UnitFileState"] != "enabled":
            yield f"{full_name(unit)} enabled", lambda unit=unit: run("systemctl", "enable", unit)


def unmount(points: list[str], mounted: str, run: Run) -> Iterator[Step]:
    """Yield what unmounts all at or below the points, latest first, from the text of
    /proc/self/mounts.
    """
    places = [line.split()[1] for line in mounted.splitlines()]
    for place in reversed(places):
        if any(place == point or place.startswith(f"{point}/") for point in points):
            yield f"{place} unmounted", lambda place=place: run("umount", "--lazy", place)


def drop_tables(tables: list[str], run: Run) -> Iterator[Step]:
    """Yield what deletes tables of nftables."""
    if not tables or shutil.which("nft") is None:
        return
    present = run("nft", "list", "tables").splitlines()
    for table in tables:
        if f"table {table}" in present:
            yield (
                f"table {table} deleted",
                lambda table=table: run("nft", "delete", "table", *table.split()),
            )


def drop_users(users: list[str], was: Record, run: Run) -> Iterator[Step]:
    """Yield what removes accounts and their groups that were not there before."""
    for name in [user for user in users if user not in was.accounts]:
        if name in {entry.pw_name for entry in pwd.getpwall()}:
            yield f"account {name} removed", lambda name=name: run("userdel", "--force", name)
        # userdel leaves a group that has other members.
        if name in {entry.gr_name for entry in grp.getgrall()}:
            yield f"group {name} removed", lambda name=name: run("groupdel", name)


def found(patterns: Iterable[str]) -> list[Path]:
    """Return what is at the paths, links to nothing too, in their order."""
    return [
        Path(path)
        for pattern in patterns
        for path in sorted(glob.glob(pattern, include_hidden=True))  # noqa: PTH207 - Path's passes over such links
    ]


def remove(path: Path) -> None:
    """Nothing is at the path."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def restore(path: Path, member: tarfile.TarInfo, content: bytes) -> None:
    """The file is as it was; of a folder that is there the rights are."""
    if path.is_dir() and member.isdir():
        os.chown(path, member.uid, member.gid)
        path.chmod(member.mode)
        return
    write_whole(path, content, mode=member.mode, owner=member.uid, group=member.gid)


def return_files(paths: list[str], was: Record) -> Iterator[Step]:
    """Yield what brings back files as they were; those that were not there go."""
    if not was.exists:
        return
    for path in map(Path, paths):
        before = was.file(str(path))
        if before is None:
            if path.is_file():
                yield f"{path} removed", lambda path=path: remove(path)
            continue
        member, content = before
        if not is_same(path, member, content):
            yield (
                f"{path} as before",
                lambda path=path, member=member, content=content: restore(path, member, content),
            )


def is_same(path: Path, member: tarfile.TarInfo, content: bytes) -> bool:
    """Return whether a file is as it was."""
    if not path.exists():
        return member.isdir()
    now = path.stat()
    same_rights = (now.st_mode & 0o7777, now.st_uid, now.st_gid) == (
        member.mode,
        member.uid,
        member.gid,
    )
    return same_rights and (path.is_dir() or path.read_bytes() == content)


def drop_paths(paths: Iterable[Path], folders: list[str]) -> Iterator[Step]:
    """Yield what removes paths, and folders in which nothing else is."""
    gone = set()
    for path in paths:
        gone.add(path)
        yield f"{path} removed", lambda path=path: remove(path)
    for folder in map(Path, folders):
        if folder.is_dir() and not folder.is_mount() and gone.issuperset(folder.iterdir()):
            gone.add(folder)
            yield f"{folder} removed", folder.rmdir


def release_packages(packages: list[str], was: Record, run: Run) -> Iterator[Step]:
    """Yield what marks packages as unwanted, but those that somebody asked for before there was a
    site.
    """
    if not was.exists or not packages:
        return
    unwanted = sorted(set(packages) & set(run("apt-mark", "showmanual").split()) - was.manual)
    if unwanted:
        yield f"no longer wanted: {' '.join(unwanted)}", lambda: run("apt-mark", "auto", *unwanted)


def answer(answers: list[str], was: Record, run: Run) -> Iterator[Step]:
    """Yield what tells packages that came with the site that their data goes too."""
    known = {one: one.split() for one in answers}
    for line, (package, question, _, value) in known.items():
        asked = was.exists and package not in was.packages and run("debconf-show", package)
        if asked and f"* {question}: {value}" not in asked:
            yield (
                f"{question} answered: {value}",
                lambda line=line: run("debconf-set-selections", text=line),
            )


def stages(
    traces: dict[str, list[str]], was: Record, run: Run, *, remove_data: bool
) -> Iterator[Iterator[Step]]:
    """Yield the stages of a removal, in an order in which no stage needs what an earlier one has
    taken.

    Each looks at the host when its turn comes, so that what an earlier stage did is seen.
    """
    # What starts others goes first, or they would be back.
    yield stop_units([unit for unit in traces["units"] if unit.endswith(TRIGGERS)], was, run)
    yield stop_units([unit for unit in traces["units"] if not unit.endswith(TRIGGERS)], was, run)
    yield unmount(traces["mounts"], Path("/proc/self/mounts").read_text(encoding="utf-8"), run)
    yield drop_tables(traces["tables"], run)
    yield drop_users(traces["users"], was, run)
    yield return_files(traces["replaced"], was)
    own = (
        path
        for path in found(traces["own"] + (traces["data"] if remove_data else []))
        if path not in was.lists
    )
    yield drop_paths(own, traces["folders"])
    yield enable_units(traces["units"], was, run)
    yield answer(traces["answers"] if remove_data else [], was, run)
    yield release_packages(traces["packages"], was, run)


def tell(traces: dict[str, list[str]], changes: list[str], was: Record, run: Run) -> None:
    """Whoever still runs has the settings that are there now."""
    if any(folder in change for folder in UNIT_FOLDERS for change in changes):
        run("systemctl", "daemon-reload")
    for unit in traces["reloads"] if changes else ():
        run("systemctl", "try-reload-or-restart", unit)
    for unit in traces["units"] if changes else ():
        if full_name(unit) in was.active:
            run("systemctl", "restart", unit)


def main() -> None:
    """Entry point of the module."""
    lists = {kind: {"type": "list", "elements": "str", "default": []} for kind in KINDS}
    module = AnsibleModule(
        argument_spec={
            "record": {"type": "path", "required": True},
            "remove_data": {"type": "bool", "default": False},
            "traces": {"type": "dict", "required": True, "options": lists},
        },
        supports_check_mode=True,
    )
    traces, changes = module.params["traces"], []

    def run(*argv: str, expected: tuple[int, ...] = (0,), text: str | None = None) -> str:
        # Links for other init systems are their packages' affair.
        code, out, err = module.run_command(
            list(argv), data=text, environ_update={"SYSTEMCTL_SKIP_SYSV": "1"}
        )
        if code not in expected:
            module.fail_json(
                msg=f"could not {' '.join(argv)}: {err.strip() or out.strip()}", changes=changes
            )
        return out

    was = Record(Path(module.params["record"]))
    for stage in stages(traces, was, run, remove_data=module.params["remove_data"]):
        for change, act in stage:
            changes.append(change)
            if not module.check_mode:
                act()
    if not module.check_mode:
        tell(traces, changes, was, run)
    kept = (
        []
        if module.params["remove_data"]
        else [pattern for pattern in traces["data"] if found([pattern])]
    )
    module.exit_json(changed=bool(changes), changes=changes, kept=kept)


if __name__ == "__main__":
    main()
