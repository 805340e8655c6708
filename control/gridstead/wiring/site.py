# SPDX-License-Identifier: Apache-2.0
"""What stands behind `gridstead provider apply`, `verify`, `plan`, `drift` and `runs`."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
from pathlib import Path

from gridstead.adapters.ansible.runs import AnsiblePlaybooks
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.drift_metrics import DriftMetricsFile
from gridstead.adapters.run_records import RunRecordFiles
from gridstead.errors import ConfigError, InvalidInput
from gridstead.ports.playbooks import DriftMetrics
from gridstead.services.site import APPLY, RunAuthor, SiteService


def open_site(checkout: Path | None) -> SiteService:
    """Return the site of a checkout; None: the one that the current folder is in."""
    folder = find_checkout(checkout)
    caller = RunAuthor(by=f"{getpass.getuser()}@{socket.gethostname()}", commit=commit_of(folder))
    return SiteService(
        AnsiblePlaybooks(folder), RunRecordFiles(records_folder()), SystemClock(), caller
    )


def open_drift_metrics(path: Path) -> DriftMetrics:
    """Return the file that monitoring reads.

    Raises:
        InvalidInput: It cannot be one.
    """
    if path.suffix != ".prom" or not path.parent.is_dir():
        raise InvalidInput(
            f"cannot write metrics to {path}", detail="a file NAME.prom in a folder that is there"
        )
    return DriftMetricsFile(path)


def find_checkout(given: Path | None) -> Path:
    """Return the folder with the playbooks.

    Raises:
        ConfigError: There is none.
    """
    here = Path.cwd()
    candidates = [given.resolve()] if given else [here, *here.parents]
    for folder in candidates:
        if (folder / APPLY).is_file():
            return folder
    raise ConfigError(
        f"no playbooks in {candidates[0]}" + ("" if given else " or above"),
        hint="Go to a checkout of Gridstead, or name it with --checkout.",
    )


def records_folder() -> Path:
    """Return where this user's records are."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local/state") / "gridstead/runs"


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout, with ``+`` behind it if files differ from it; empty where
    git knows none.
    """
    head = _git(folder, "rev-parse", "--short=12", "HEAD")
    return head + ("+" if head and _git(folder, "status", "--porcelain") else "")


def _git(folder: Path, *argv: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *argv], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
