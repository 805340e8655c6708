# SPDX-License-Identifier: Apache-2.0
"""What is common to all ways of running a program next to Slurm: a command, its outcome, and who
judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gridstead.errors import SchedulerUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run: no shell, an environment of its own.

    Attributes:
        argv: Program and arguments.
        environment: The whole environment.
        stdin: What it reads. May hold secrets, so it is never shown.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a program ended. Bytes that are not UTF-8 are replaced."""

    exit_status: int
    stdout: str
    stderr: str


class Runner(Protocol):
    """Runs commands on a host that has Slurm's tools."""

    def run(self, command: Command) -> CommandResult:
        """Run the command to its end and return the outcome, whatever its exit status.

        Raises:
            SchedulerUnavailable: It could not be run, or did not end in time.
        """
        ...


def answer(runner: Runner, command: Command) -> str:
    """Return the standard output of a command that only reads.

    Raises:
        SchedulerUnavailable: It failed, or it succeeded and complained: half an answer is none.
    """
    outcome = runner.run(command)
    if outcome.exit_status != 0 or "error:" in outcome.stderr:
        raise SchedulerUnavailable(
            f"could not ask Slurm with {command.argv[0]}",
            detail=f"exit status {outcome.exit_status}: {outcome.stderr.strip()[:500]!r}",
        )
    return outcome.stdout
