# SPDX-License-Identifier: Apache-2.0
"""Loads Python files that are in no package: plugins and modules of Ansible, and scripts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(path: Path, name: str | None = None) -> ModuleType:
    """Return a file as a module.

    Args:
        path: The file.
        name: The name under which other modules import it, such as ``gridstead_checks``.
            None if no module imports it.
    """
    specification = importlib.util.spec_from_file_location(name or path.stem, path)
    module = importlib.util.module_from_spec(specification)
    if name:
        sys.modules[name] = module
    specification.loader.exec_module(module)
    return module
