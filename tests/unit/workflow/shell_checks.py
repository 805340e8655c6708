# SPDX-License-Identifier: Apache-2.0
"""Checks of scripts with ``bash -n`` and shellcheck. Both programs must be installed."""

from __future__ import annotations

import subprocess


def bash_errors(scripts):
    """Return the first syntax error that bash reports. Returns 0 if the scripts have no error."""
    check = 'for script; do bash -n "$script" || exit; done'
    command = ["bash", "-c", check, "bash", *scripts]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stderr or result.returncode


def shellcheck(*scripts):
    """Return the messages of shellcheck for the files."""
    command = ["shellcheck", *scripts]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def slurm_directives(script):
    """Return the #SBATCH lines before the first command. sbatch ignores later #SBATCH lines."""
    directives = []
    for line in script.split("\n"):
        if line.startswith("#SBATCH"):
            directives.append(line)
        elif line.strip() and not line.startswith("#"):
            break
    return directives
