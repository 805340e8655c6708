# SPDX-License-Identifier: Apache-2.0
"""What both ways into Slurm give a job alike."""

from __future__ import annotations

from pathlib import Path

from gridstead.domain.submission import Submission

_PATH = "/usr/local/bin:/usr/bin:/bin"


def environment(submission: Submission, *, home: Path) -> dict[str, str]:
    """Return the whole environment of a job: who it is, and what its script brought."""
    address = submission.user.address
    return {
        **submission.script.environment,
        "HOME": str(home),
        "USER": address,
        "LOGNAME": address,
        "SHELL": "/bin/bash",
        "PATH": _PATH,
    }
