# SPDX-License-Identifier: Apache-2.0
"""Loads Python files that are not in a package: scripts, and plugins and modules of Ansible."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(path: Path, name: str | None = None) -> ModuleType:
    """Load a Python file and return it as a module.

    Args:
        path: The file.
        name: The name by which other modules import the file, such as ``gridstead_checks``.
            None if no other module imports it.
    """
    specification = importlib.util.spec_from_file_location(name or path.stem, path)
    module = importlib.util.module_from_spec(specification)
    if name:
        sys.modules[name] = module
    specification.loader.exec_module(module)
    return module
