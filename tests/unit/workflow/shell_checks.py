# SPDX-License-Identifier: Apache-2.0
"""What two programs that know the shell say of scripts. A machine without them fails the test."""

from __future__ import annotations

import subprocess


def bash_complaints(scripts):
    """What bash says of the grammar of the files."""
    check = 'for script; do bash -n "$script" || exit; done'
    done = subprocess.run(
        ["bash", "-c", check, "bash", *scripts], capture_output=True, text=True, check=False
    )
    return done.stderr or done.returncode


def shellcheck(*scripts):
    """What shellcheck says of the files."""
    return subprocess.run(
        ["shellcheck", *scripts], capture_output=True, text=True, check=False
    ).stdout
