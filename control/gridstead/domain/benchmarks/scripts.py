# SPDX-License-Identifier: Apache-2.0
"""The bash scripts of the steps."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from gridstead.domain.benchmarks.equipment import OTHER_NODES, NetworkOptions
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
    """Return the commands that set the variables of Open MPI for messages between nodes.

    The processes of a lab share the cores of one machine, so a process that waits for a message
    must let others run.
    """
    idle = 1 if site.options.mode is Mode.LAB else 0
    commands = [f"export OMPI_MCA_mpi_yield_when_idle={idle}"]
    if site.equipment.uses_ucx:
        commands += _ucx_variables(site.options.network)
    else:
        # Shared memory is not in the list: a step has one process on each node.
        commands.append("export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp")
    return "\n".join(commands)


def _ucx_variables(options: NetworkOptions) -> list[str]:
    commands = ["export OMPI_MCA_pml=ucx"]
    if options.transport:
        commands.append(f"export UCX_TLS={shlex.quote(options.transport)}")
    if options.devices:
        commands.append('case "$SLURMD_NODENAME" in')
        # The first pattern that matches counts, so the pattern of all other nodes is the last.
        for node in sorted(options.devices, key=lambda name: (name == OTHER_NODES, name)):
            pattern = "*" if node == OTHER_NODES else shlex.quote(node)
            devices = shlex.quote(options.devices[node])
            commands.append(f"{pattern}) export UCX_NET_DEVICES={devices} ;;")
        commands.append("esac")
    return commands


def path_command(site: MeasuredSite) -> str:
    """Return the command that searches programs in the operator's directories first."""
    directories = ":".join(map(shlex.quote, site.options.program_directories))
    return f"export PATH={directories}:$PATH" if directories else ":"


def file_command(name: str, text: str) -> str:
    """Return the command that writes a file. The text must not have a line ``END_OF_FILE``."""
    return f"cat >{name} <<'END_OF_FILE'\n{text}END_OF_FILE"
