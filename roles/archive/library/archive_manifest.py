# SPDX-License-Identifier: Apache-2.0
"""Write the manifest of an archive, which makes it one, or check an archive against it and the key
that opens it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: archive_manifest
short_description: The manifest of an archive
description:
  - C(written) lists every part with its checksum in C(manifest.json) and gives the folder its name, in this order, so
    that a folder with that name is whole.
  - C(checked) reads the manifest, every part, and opens each, and fails at the first thing that is not as it should be.
    Parts that hosts want and it lacks are told all at once.
options:
  state:
    description: What is to be true.
    type: str
    choices: [written, checked]
    required: true
  path:
    description: Folder of the parts.
    type: path
    required: true
  site:
    description: Name of the site.
    type: str
    required: true
  name:
    description: Name that the folder gets. Needed for C(written).
    type: str
  began_at:
    description: When the first part was begun, in seconds. Needed for C(written).
    type: int
  recipient:
    description: For whom the parts are sealed. Needed for C(written).
    type: str
  parts:
    description: Name, host and versions of packages of each part. Needed for C(written).
    type: list
    elements: dict
  identity_file:
    description: The key that opens the parts. Needed for C(checked).
    type: path
  wanted:
    description: Hosts that each part will be restored to, for C(checked). HOST in a part's name stands for the host's.
    type: dict
    default: {}
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Ensure the archive can be restored
  archive_manifest:
    state: checked
    path: /srv/backups/20260102T030405Z
    site: mysite
    identity_file: /srv/backup-key
"""

RETURN = r"""
manifest:
  description: The manifest.
  type: dict
  returned: always
began:
  description: The time before which everything is in the archive, as people write it.
  type: str
  returned: always
bytes:
  description: Size of all parts.
  type: int
  returned: always
took_s:
  description: Seconds that it took to make the archive.
  type: int
  returned: always
"""

FORMAT = 1
FILE = "manifest.json"
CHUNK = 1 << 20
Run = Callable[[list[str]], tuple[int, str, str]]


class Refusal(Exception):
    """An archive cannot be written or restored, and why."""


def checksum(path: Path) -> str:
    """Return a file's SHA-256, reading it in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def written(
    folder: Path, head: dict[str, Any], parts: list[dict[str, Any]], clock: Callable[[], float]
) -> dict[str, Any]:
    """The folder has a manifest, is on the disk, and only then has its name; return the manifest.

    Args:
        folder: Where the parts are, each as ``<name>.age``, and nothing else.
        head: ``name``, ``site``, ``began_at`` and ``recipient``.
        parts: ``name``, ``host`` and ``packages`` of each.
        clock: Returns the time, seconds.

    Raises:
        Refusal: If the folder has other parts than these, or its name is taken.
    """
    names = sorted(one["name"] for one in parts)
    found = sorted(path.stem for path in folder.glob("*.age"))
    if names != found:
        raise Refusal(f"the parts in {folder} are {found}; there should be {names}")
    listed = {}
    for one in parts:
        path = folder / f"{one['name']}.age"
        path.chmod(0o600)
        _flush(path)
        size = path.stat().st_size
        listed[one["name"]] = {
            "host": one["host"], "packages": one["packages"], "bytes": size, "sha256": checksum(path),
        }  # fmt: skip
    manifest = {"format": FORMAT, **head, "finished_at": int(clock()), "parts": listed}
    file = folder / FILE
    file.touch(mode=0o600)
    file.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    _flush(file)
    _flush(folder)
    target = folder.parent / head["name"]
    if target.exists():
        raise Refusal(f"{target} is there already")
    folder.rename(target)
    _flush(folder.parent)
    return manifest


def checked(folder: Path, site: str) -> dict[str, Any]:
    """Return the manifest of an archive that is whole, of this site, and of a format that is known
    here.

    Raises:
        Refusal: If it is not; the text says what is wrong with it.
    """
    try:
        manifest = json.loads((folder / FILE).read_text(encoding="utf-8"))
        format_, of, parts = manifest["format"], manifest["site"], manifest["parts"]
        expected = {name: (part["bytes"], part["sha256"]) for name, part in parts.items()}
        _ = manifest["recipient"], manifest["began_at"], manifest["finished_at"]
    except FileNotFoundError:
        raise Refusal(
            f"{folder} is no archive: it has no {FILE}. There are: {', '.join(others(folder)) or 'none'}"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refusal(
            f"archive {folder.name} is damaged: its {FILE} cannot be read: {error!r}"
        ) from error
    if format_ != FORMAT:
        raise Refusal(
            f"archive {folder.name} has format {format_}; this version of Gridstead reads {FORMAT}"
        )
    if of != site:
        raise Refusal(
            f"archive {folder.name} is of site {of}, not of {site}; -e archive_site={of} if both are one"
        )
    for name, (size, digest) in expected.items():
        path = folder / f"{name}.age"
        if not path.is_file():
            raise Refusal(f"archive {folder.name} is damaged: part {name} is missing")
        if path.stat().st_size != size:
            raise Refusal(
                f"archive {folder.name} is damaged: part {name} has {path.stat().st_size} bytes, {size} were written"
            )
        if checksum(path) != digest:
            raise Refusal(f"archive {folder.name} is damaged: part {name} is not what was written")
    return manifest


def complete(folder: Path, manifest: dict[str, Any], wanted: dict[str, list[str]]) -> None:
    """Nothing happens if an archive has every part that hosts want.

    Args:
        folder: Where the parts are.
        manifest: Of an archive that is whole.
        wanted: Hosts by part. ``HOST`` in a part's name stands for the host's.

    Raises:
        Refusal: If it lacks some; the text names all of them, and their hosts.
    """
    asked = {(name.replace("HOST", host), host) for name, hosts in wanted.items() for host in hosts}
    lacking = [
        f"{part} of host {host}" for part, host in sorted(asked) if part not in manifest["parts"]
    ]
    if lacking:
        raise Refusal(
            f"archive {folder.name} lacks {', '.join(lacking)}; it has {', '.join(sorted(manifest['parts']))}."
            " Restore with the inventory that the site had when the archive was made"
        )


def opened(folder: Path, manifest: dict[str, Any], identity_file: str, run: Run) -> None:
    """Nothing happens if the key opens every part.

    Args:
        folder: Where the parts are.
        manifest: Of an archive that is whole.
        identity_file: The key.
        run: Runs a command; returns its exit code, its output and its errors.

    Raises:
        Refusal: If it does not.
    """
    for name in manifest["parts"]:
        part = str(folder / f"{name}.age")
        code, _, errors = run(
            ["age", "--decrypt", f"--identity={identity_file}", "--output=/dev/null", part]
        )
        if code != 0:
            raise Refusal(
                f"archive_identity_file {identity_file} does not open archive {folder.name}, which is sealed for"
                f" {manifest['recipient']}: {errors.splitlines()[0] if errors else code}"
            )


def others(folder: Path) -> list[str]:
    """Return the names of the whole archives beside a folder, the newest last."""
    return sorted(path.parent.name for path in folder.parent.glob(f"[!.]*/{FILE}"))


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["written", "checked"], "required": True},
            "path": {"type": "path", "required": True},
            "site": {"type": "str", "required": True},
            "name": {"type": "str"},
            "began_at": {"type": "int"},
            "recipient": {"type": "str"},
            "parts": {"type": "list", "elements": "dict"},
            "identity_file": {"type": "path"},
            "wanted": {"type": "dict", "default": {}},
        },
        required_if=[
            ("state", "written", ("name", "began_at", "recipient", "parts")),
            ("state", "checked", ("identity_file",)),
        ],
    )
    params = module.params
    folder = Path(params["path"])
    is_written = params["state"] == "written"
    try:
        if is_written:
            head = {key: params[key] for key in ("name", "site", "began_at", "recipient")}
            manifest = written(folder, head, params["parts"], time.time)
        else:
            manifest = checked(folder, params["site"])
            complete(folder, manifest, params["wanted"])
            opened(folder, manifest, params["identity_file"], module.run_command)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal))
    except OSError as error:
        module.fail_json(msg=f"could not use {error.filename}: {error.strerror}")
    began = dt.datetime.fromtimestamp(manifest["began_at"], tz=dt.UTC)
    module.exit_json(
        changed=is_written, manifest=manifest, began=began.isoformat(timespec="seconds"),
        bytes=sum(part["bytes"] for part in manifest["parts"].values()),
        took_s=manifest["finished_at"] - manifest["began_at"],
    )  # fmt: skip


if __name__ == "__main__":
    main()
