# SPDX-License-Identifier: Apache-2.0
"""The environment of a job, which is the same for submissions through the agent and over SSH."""

from __future__ import annotations

from pathlib import Path

from gridstead.domain.supervisor.submission import Submission

_PATH = "/usr/local/bin:/usr/bin:/bin"


def job_environment(submission: Submission, *, home: Path) -> dict[str, str]:
    """Return the complete environment of a job: the variables of the script and of the user."""
    address = submission.user.address
    return {
        **submission.script.environment,
        "HOME": str(home),
        "USER": address,
        "LOGNAME": address,
        "SHELL": "/bin/bash",
        "PATH": _PATH,
    }
