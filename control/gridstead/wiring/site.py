# SPDX-License-Identifier: Apache-2.0
"""Creates the site service of `gridstead provider apply`, `verify`, `plan`, `drift` and `runs`."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
from pathlib import Path

from gridstead.adapters.clock import SystemClock
from gridstead.adapters.site.drift_metrics import DriftMetricsFile
from gridstead.adapters.site.run_records import RunRecordFiles
from gridstead.adapters.site.runs import AnsiblePlaybooks
from gridstead.errors import ConfigError, InvalidInput
from gridstead.ports.site import DriftMetrics
from gridstead.services.site.site import APPLY, RunAuthor, SiteService


def open_site(checkout: Path | None) -> SiteService:
    """Return the service of a site.

    Args:
        checkout: The folder with the playbooks. None to search the current folder and its parents.
    """
    folder = find_checkout(checkout)
    user = f"{getpass.getuser()}@{socket.gethostname()}"
    author = RunAuthor(by=user, commit=commit_of(folder))
    records = RunRecordFiles(records_folder())
    return SiteService(AnsiblePlaybooks(folder), records, SystemClock(), author)


def open_drift_metrics(path: Path) -> DriftMetrics:
    """Return the metrics file of the drift check.

    Raises:
        InvalidInput: If the path does not end in ``.prom``, or if its folder does not exist.
    """
    if path.suffix != ".prom" or not path.parent.is_dir():
        raise InvalidInput(
            f"cannot write metrics to {path}",
            detail="the file must be NAME.prom in an existing folder",
        )
    return DriftMetricsFile(path)


def find_checkout(checkout: Path | None) -> Path:
    """Return the folder with the playbooks.

    Args:
        checkout: The folder to check. None to search the current folder and its parents.

    Raises:
        ConfigError: If no folder has playbooks.
    """
    current_folder = Path.cwd()
    candidates = [checkout.resolve()] if checkout else [current_folder, *current_folder.parents]
    for folder in candidates:
        if (folder / APPLY).is_file():
            return folder
    searched_folders = str(candidates[0]) if checkout else f"{candidates[0]} or its parents"
    hint = "Run the command in a checkout of Gridstead, or give its path with --checkout."
    raise ConfigError(f"no playbooks in {searched_folders}", hint=hint)


def records_folder() -> Path:
    """Return the folder of this user's run records. The default is in ``~/.local/state``."""
    state = os.environ.get("XDG_STATE_HOME")
    state_folder = Path(state) if state else Path.home() / ".local/state"
    return state_folder / "gridstead/runs"


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout, followed by ``+`` if files differ from the commit.

    Returns an empty text if the folder is not in a git repository.
    """
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return ""
    changed_files = _git(folder, "status", "--porcelain")
    return f"{commit}+" if changed_files else commit


def _git(folder: Path, *arguments: str) -> str:
    """Return the output of a git command. Returns an empty text if the command fails."""
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
