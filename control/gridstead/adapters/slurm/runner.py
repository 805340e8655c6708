# SPDX-License-Identifier: Apache-2.0
"""Commands that run on a host with Slurm's tools, their results, and the interface of a runner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gridstead.errors import SchedulerUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run, without a shell.

    Attributes:
        argv: Program and arguments.
        environment: The complete environment.
        stdin: Standard input. The repr omits it, because it may contain secrets.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The exit status and output of a program. Bytes that are not UTF-8 are replaced."""

    exit_status: int
    stdout: str
    stderr: str


class Runner(Protocol):
    """Runs commands on a host that has Slurm's tools."""

    def run(self, command: Command) -> CommandResult:
        """Run the command to its end and return its result, for any exit status.

        Raises:
            SchedulerUnavailable: If the command could not be run, or did not end in time.
        """
        ...


def read_output(runner: Runner, command: Command) -> str:
    """Return the standard output of a command that only reads.

    Raises:
        SchedulerUnavailable: If the command failed, or printed an error. The output may be partial.
    """
    result = runner.run(command)
    if result.exit_status != 0 or "error:" in result.stderr:
        raise SchedulerUnavailable(
            f"could not query Slurm with {command.argv[0]}",
            detail=f"exit status {result.exit_status}: {result.stderr.strip()[:500]!r}",
        )
    return result.stdout
