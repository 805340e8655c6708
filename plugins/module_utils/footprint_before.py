# SPDX-License-Identifier: Apache-2.0
"""Reads the record that module footprint_record has written."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path


class Record:
    """The state of a host before the site.

    It has packages, the manually installed ones among them, units, apt's package lists, accounts
    and groups, and files. Without a record everything is empty.
    """

    def __init__(self, folder: Path) -> None:
        self.exists = folder.exists()
        host = json.loads((folder / "host.json").read_text(encoding="utf-8")) if self.exists else {}
        self.packages, self.manual = set(host.get("packages", ())), set(host.get("manual", ()))
        self.enabled, self.active = set(host.get("enabled", ())), set(host.get("active", ()))
        self.lists, self.accounts = (
            set(map(Path, host.get("lists", ()))),
            set(host.get("accounts", ())),
        )
        self._settings = folder / "settings.tar.gz"

    def file(self, path: str) -> tuple[tarfile.TarInfo, bytes] | None:
        """Return a file of the settings with its content; None if it did not exist."""
        with tarfile.open(self._settings) as archive:
            try:
                member = archive.getmember(path.lstrip("/"))
            except KeyError:
                return None
            content = archive.extractfile(member) if member.isfile() else None
            return member, content.read() if content else b""
