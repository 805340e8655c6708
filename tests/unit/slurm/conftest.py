# SPDX-License-Identifier: Apache-2.0
"""The recorded output of Slurm's commands."""

from pathlib import Path

import pytest

RECORDED = Path(__file__).parents[2] / "adapters" / "slurm" / "recorded"
VERSIONS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


@pytest.fixture(params=VERSIONS)
def read_recorded(request):
    """Return a function that returns the recorded output of a command in a situation."""
    folder = RECORDED / request.param

    def read_output(situation):
        return (folder / f"{situation}.txt").read_text(encoding="utf-8")

    return read_output
