# SPDX-License-Identifier: Apache-2.0
"""The bash scripts of the steps."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from gridstead.domain.benchmarks.site import MeasuredSite, Mode

PRIVATE_DIRECTORY = "/tmp"  # noqa: S108 - Slurm gives each job its own
_REMOVE_OLD_DIRECTORIES = (
    "find . -mindepth 1 -maxdepth 1 -name 'gridstead-benchmark.*' -user \"$UID\" -mmin +60"
    " -exec rm -rf -- {} +"
)


def script(commands: Iterable[str], *, parent: str = PRIVATE_DIRECTORY) -> str:
    """Return a bash script that stops at the first error and leaves no files.

    Args:
        commands: The commands. Their working directory is new and empty.
        parent: The parent of this directory. Directories that killed scripts left in it are
            removed after an hour.
    """
    return "\n".join(
        (
            "set -euo pipefail",
            f"cd {shlex.quote(parent)}",
            _REMOVE_OLD_DIRECTORIES,
            'directory=$(mktemp --directory "$PWD/gridstead-benchmark.XXXXXXXX")',
            "trap 'rm -rf -- \"$directory\"' EXIT",
            'cd "$directory"',
            *commands,
            "",
        )
    )


def mpi_variables(site: MeasuredSite) -> str:
    """Return the command that sets the variables of Open MPI.

    The processes of a lab share the cores of one machine, so a process that waits for a message
    must let others run.
    """
    idle = 1 if site.options.mode is Mode.LAB else 0
    return f"export OMPI_MCA_mpi_yield_when_idle={idle}"


def file_command(name: str, text: str) -> str:
    """Return the command that writes a file. The text must not have a line ``END_OF_FILE``."""
    return f"cat >{name} <<'END_OF_FILE'\n{text}END_OF_FILE"
