# SPDX-License-Identifier: Apache-2.0
"""Creates the fetcher of workflow modules for the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from gridstead.adapters.clock import SystemClock
from gridstead.adapters.definitions.modules import GitModules
from gridstead.workflow.schema import ModuleSource


def open_modules(
    hosts: Iterable[str], ca_file: Path | None = None
) -> Callable[[ModuleSource], str]:
    """Return a function that fetches the text of a module. Modules must be on one of ``hosts``."""
    return GitModules(tuple(hosts), clock=SystemClock(), ca_file=ca_file).text
