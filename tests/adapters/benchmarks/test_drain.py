# SPDX-License-Identifier: Apache-2.0
"""Tests of draining nodes with scontrol."""

import pytest

from gridstead.adapters.benchmarks.drain import ScontrolDrain
from gridstead.adapters.slurm.runner import CommandResult
from gridstead.errors import SchedulerUnavailable


class RecordingRunner:
    """Records commands and ends them with an exit status."""

    def __init__(self, exit_status, stderr=""):
        self.result = CommandResult(exit_status=exit_status, stdout="", stderr=stderr)
        self.commands = []

    def run(self, command):
        self.commands.append(command.argv)
        return self.result


def test_a_node_is_drained_with_its_reason():
    runner = RecordingRunner(0)

    ScontrolDrain(runner).drain("n1", reason="gridstead benchmarks: n1 is slow")

    (command,) = runner.commands
    assert command == (
        "scontrol",
        "update",
        "nodename=n1",
        "state=drain",
        "reason=gridstead benchmarks: n1 is slow",
    )


def test_a_refusal_of_slurm_is_an_error_with_its_words():
    runner = RecordingRunner(1, "slurm_update error: Access/permission denied\n")

    with pytest.raises(SchedulerUnavailable, match="Access/permission denied"):
        ScontrolDrain(runner).drain("n1", reason="slow")
