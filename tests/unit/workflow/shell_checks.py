# SPDX-License-Identifier: Apache-2.0
"""Checks of scripts with bash and shellcheck. A test fails if one of them is missing."""

from __future__ import annotations

import subprocess


def bash_errors(scripts):
    """Return the syntax errors that bash reports for the files."""
    check = 'for script; do bash -n "$script" || exit; done'
    command = ["bash", "-c", check, "bash", *scripts]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    return completed.stderr or completed.returncode


def shellcheck(*scripts):
    """Return the messages of shellcheck for the files."""
    command = ["shellcheck", *scripts]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
