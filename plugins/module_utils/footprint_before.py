# SPDX-License-Identifier: Apache-2.0
"""Reads the record of a host's earlier state, which module footprint_record writes."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path


class Record:
    """The state of a host before Gridstead was installed. Without a record all sets are empty.

    Attributes:
        exists: Whether there is a record.
        packages: The installed packages.
        manual: The packages that are marked as manually installed.
        enabled: The enabled systemd units.
        active: The active systemd units.
        lists: The files of apt's package lists.
        accounts: The names of users and groups.
    """

    def __init__(self, folder: Path) -> None:
        self.exists = folder.exists()
        host = {}
        if self.exists:
            host = json.loads((folder / "host.json").read_text(encoding="utf-8"))
        self.packages = set(host.get("packages", ()))
        self.manual = set(host.get("manual", ()))
        self.enabled = set(host.get("enabled", ()))
        self.active = set(host.get("active", ()))
        self.lists = set(map(Path, host.get("lists", ())))
        self.accounts = set(host.get("accounts", ()))
        self._settings = folder / "settings.tar.gz"

    def file(self, path: str) -> tuple[tarfile.TarInfo, bytes] | None:
        """Return the metadata and content of a recorded file. None if the file did not exist.

        The content of a folder is empty.
        """
        with tarfile.open(self._settings) as archive:
            try:
                member = archive.getmember(path.lstrip("/"))
            except KeyError:
                return None
            stream = archive.extractfile(member) if member.isfile() else None
            content = stream.read() if stream else b""
            return member, content
