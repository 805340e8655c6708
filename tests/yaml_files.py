# SPDX-License-Identifier: Apache-2.0
"""Reads YAML files with PyYAML's C parser, which is ten times faster than its Python parser."""

from pathlib import Path
from typing import Any

import yaml


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file.

    Raises:
        OSError: If the file cannot be read.
        yaml.YAMLError: If it is not YAML.
    """
    return yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
