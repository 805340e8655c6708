# SPDX-License-Identifier: Apache-2.0
"""Drains nodes with scontrol. The account must be an operator or administrator of Slurm."""

from __future__ import annotations

from gridstead.adapters.slurm.commands import slurm_command
from gridstead.adapters.slurm.runner import Runner
from gridstead.errors import SchedulerUnavailable


class ScontrolDrain:
    """Implements port ``NodeDrain``.

    Args:
        runner: Runs commands on a host that has Slurm's tools.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def drain(self, node: str, *, reason: str) -> None:
        """Start no more jobs on a node. Its running jobs continue.

        Raises:
            SchedulerUnavailable: If Slurm refused it, or did not answer.
        """
        command = slurm_command(
            "scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"
        )
        result = self._runner.run(command)
        if result.exit_status != 0:
            raise SchedulerUnavailable(
                f"could not drain node {node}", detail=result.stderr.strip()[:500]
            )
