# SPDX-License-Identifier: Apache-2.0
"""Writes the manifest of an archive, or checks an archive against its manifest and age identity."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gridstead.site.plugins.module_utils.durable_file import flush

DOCUMENTATION = r"""
module: archive_manifest
short_description: Write or check the manifest of an archive
description:
  - C(written) writes C(manifest.json) with the checksum of every part and then renames the
    directory to its final name. Therefore every directory with a final name is complete.
  - C(checked) reads the manifest, checks every part, decrypts it, and fails at the first error. If
    parts that a host needs are missing, one error lists all of them.
options:
  state:
    description: The required state of the archive.
    type: str
    choices: [written, checked]
    required: true
  path:
    description: Directory of the parts.
    type: path
    required: true
  site:
    description: Name of the site.
    type: str
    required: true
  name:
    description: Final name of the directory. Required by C(written).
    type: str
  began_at:
    description: Start of the backup, as Unix time in seconds. Required by C(written).
    type: int
  recipient:
    description: age recipient for which the parts are encrypted. Required by C(written).
    type: str
  parts:
    description: Name, host and package versions of each part. Required by C(written).
    type: list
    elements: dict
  identity_file:
    description: age identity that decrypts the parts. Required by C(checked).
    type: path
  wanted:
    description:
      - Hosts to which each part is restored, for C(checked). HOST in the name of a part is replaced
        by the name of the host.
    type: dict
    default: {}
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Check that the archive can be restored
  gridstead.site.archive_manifest:
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
  description: Start of the backup in ISO 8601. The archive may lack changes after this time.
  type: str
  returned: always
bytes:
  description: Size of all parts, in bytes.
  type: int
  returned: always
took_s:
  description: Duration of the backup, in seconds.
  type: int
  returned: always
"""

FORMAT = 1
FILE = "manifest.json"
REQUIRED_KEYS = ("format", "site", "recipient", "began_at", "finished_at")
CHUNK_BYTES = 1 << 20
Run = Callable[[list[str]], tuple[int, str, str]]


class Refusal(Exception):
    """An archive cannot be written or restored. The text is the reason."""


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file as hex text."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def write_manifest(
    folder: Path, header: dict[str, Any], parts: list[dict[str, Any]], clock: Callable[[], float]
) -> dict[str, Any]:
    """Write the manifest, flush all files to the disk and give the directory its final name.

    Args:
        folder: Directory of the parts, with one file ``<name>.age`` for each part.
        header: ``name``, ``site``, ``began_at`` and ``recipient``.
        parts: ``name``, ``host`` and ``packages`` of each part.
        clock: Returns the Unix time in seconds.

    Returns:
        The manifest.

    Raises:
        Refusal: If the directory does not contain exactly the parts, or if the final name exists.
    """
    expected_names = sorted(part["name"] for part in parts)
    names = sorted(path.stem for path in folder.glob("*.age"))
    if names != expected_names:
        raise Refusal(f"{folder} contains the parts {names}, but must contain {expected_names}")
    entries = {}
    for part in parts:
        entries[part["name"]] = _manifest_entry(folder, part)
    manifest = {"format": FORMAT, **header, "finished_at": int(clock()), "parts": entries}
    file = folder / FILE
    file.touch(mode=0o600)
    file.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    flush(file)
    flush(folder)
    _publish(folder, folder.parent / header["name"])
    return manifest


def _publish(folder: Path, target: Path) -> None:
    """Rename the directory of a complete archive to its final name."""
    if target.exists():
        raise Refusal(f"archive {target} exists already")
    folder.rename(target)
    flush(target.parent)


def _manifest_entry(folder: Path, part: dict[str, Any]) -> dict[str, Any]:
    """Flush a part to the disk and return its entry for the manifest."""
    path = folder / f"{part['name']}.age"
    path.chmod(0o600)
    flush(path)
    return {
        "host": part["host"],
        "packages": part["packages"],
        "bytes": path.stat().st_size,
        "sha256": checksum(path),
    }


def read_manifest(folder: Path, site: str) -> dict[str, Any]:
    """Return the manifest of a complete archive of a site, in the current format.

    Raises:
        Refusal: If the archive is incomplete, damaged, of another site or of another format.
    """
    manifest, parts = _parse_manifest(folder)
    if manifest["format"] != FORMAT:
        raise Refusal(
            f"archive {folder.name} has format {manifest['format']};"
            f" this version of Gridstead reads {FORMAT}"
        )
    archived_site = manifest["site"]
    if archived_site != site:
        raise Refusal(
            f"archive {folder.name} is of site {archived_site}, not of site {site}; if both"
            f" names denote the same site, set -e archive_site={archived_site}"
        )
    for name, (size, digest) in parts.items():
        _check_part(folder, name, size, digest)
    return manifest


def _parse_manifest(folder: Path) -> tuple[dict[str, Any], dict[str, tuple[int, str]]]:
    """Return the manifest, and the size in bytes and the SHA-256 of each part by name."""
    try:
        manifest = json.loads((folder / FILE).read_text(encoding="utf-8"))
        for key in REQUIRED_KEYS:
            _ = manifest[key]  # raises KeyError if the key is missing
        parts = {}
        for name, part in manifest["parts"].items():
            parts[name] = (part["bytes"], part["sha256"])
    except FileNotFoundError:
        archives = ", ".join(other_archives(folder)) or "none"
        raise Refusal(
            f"{folder} is not an archive: it has no {FILE}. Existing archives: {archives}"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refusal(
            f"archive {folder.name} is damaged: its {FILE} cannot be read: {error!r}"
        ) from error
    return manifest, parts


def _check_part(folder: Path, name: str, size: int, digest: str) -> None:
    path = folder / f"{name}.age"
    if not path.is_file():
        raise Refusal(f"archive {folder.name} is damaged: part {name} is missing")
    if path.stat().st_size != size:
        raise Refusal(
            f"archive {folder.name} is damaged: part {name} has {path.stat().st_size} bytes,"
            f" expected {size}"
        )
    if checksum(path) != digest:
        raise Refusal(f"archive {folder.name} is damaged: the checksum of part {name} is wrong")


def check_parts(folder: Path, manifest: dict[str, Any], hosts: dict[str, list[str]]) -> None:
    """Check that an archive contains every part that the hosts need.

    Args:
        folder: Directory of the archive.
        manifest: Manifest of the archive.
        hosts: The hosts that need a part, by the name of the part. ``HOST`` in a name is replaced
            by the name of the host.

    Raises:
        Refusal: If parts are missing. The text lists all of them with their hosts.
    """
    needed_parts = set()
    for name, hosts_of_part in hosts.items():
        for host in hosts_of_part:
            needed_parts.add((name.replace("HOST", host), host))
    missing_parts = []
    for part, host in sorted(needed_parts):
        is_present = part in manifest["parts"]
        if not is_present:
            missing_parts.append(f"{part} of host {host}")
    if missing_parts:
        raise Refusal(
            f"archive {folder.name} does not contain {', '.join(missing_parts)}; it contains"
            f" {', '.join(sorted(manifest['parts']))}."
            " Restore with the inventory that the site had at the time of the backup"
        )


def check_decryption(folder: Path, manifest: dict[str, Any], identity_file: str, run: Run) -> None:
    """Check that the age identity decrypts every part.

    Args:
        folder: Directory of the archive.
        manifest: Manifest of the archive.
        identity_file: Path of the age identity.
        run: Runs a command; returns its exit code, its stdout and its stderr.

    Raises:
        Refusal: If a part cannot be decrypted.
    """
    for name in manifest["parts"]:
        part = str(folder / f"{name}.age")
        code, _, errors = run(
            ["age", "--decrypt", f"--identity={identity_file}", "--output=/dev/null", part]
        )
        if code != 0:
            reason = errors.splitlines()[0] if errors else f"age exited with code {code}"
            raise Refusal(
                f"archive_identity_file {identity_file} cannot decrypt archive {folder.name}, which"
                f" is encrypted for {manifest['recipient']}: {reason}"
            )


def other_archives(folder: Path) -> list[str]:
    """Return the names of the complete archives in the same parent directory, oldest first."""
    return sorted(path.parent.name for path in folder.parent.glob(f"[!.]*/{FILE}"))


def _run(module: AnsibleModule) -> dict[str, Any]:
    """Write or check the archive as the parameters require and return the manifest."""
    params = module.params
    folder = Path(params["path"])
    if params["state"] == "written":
        header = {key: params[key] for key in ("name", "site", "began_at", "recipient")}
        return write_manifest(folder, header, params["parts"], time.time)
    manifest = read_manifest(folder, params["site"])
    check_parts(folder, manifest, params["wanted"])
    check_decryption(folder, manifest, params["identity_file"], module.run_command)
    return manifest


ARGUMENTS = {
    "state": {"type": "str", "choices": ["written", "checked"], "required": True},
    "path": {"type": "path", "required": True},
    "site": {"type": "str", "required": True},
    "name": {"type": "str"},
    "began_at": {"type": "int"},
    "recipient": {"type": "str"},
    "parts": {"type": "list", "elements": "dict"},
    "identity_file": {"type": "path"},
    "wanted": {"type": "dict", "default": {}},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        required_if=[
            ("state", "written", ("name", "began_at", "recipient", "parts")),
            ("state", "checked", ("identity_file",)),
        ],
    )
    try:
        manifest = _run(module)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal))
    except OSError as error:
        module.fail_json(msg=f"cannot read or write {error.filename}: {error.strerror}")
    began = dt.datetime.fromtimestamp(manifest["began_at"], tz=dt.UTC)
    module.exit_json(
        changed=module.params["state"] == "written",
        manifest=manifest,
        began=began.isoformat(timespec="seconds"),
        bytes=sum(part["bytes"] for part in manifest["parts"].values()),
        took_s=manifest["finished_at"] - manifest["began_at"],
    )


if __name__ == "__main__":
    main()
