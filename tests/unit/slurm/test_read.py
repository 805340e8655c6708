# SPDX-License-Identifier: Apache-2.0
"""The order of questions, and what follows from an answer that does not come."""

from pathlib import Path

import pytest
from tests.fakes.store import FakeClock

from gridstead.adapters.slurm import read, text
from gridstead.adapters.slurm.command import CommandResult
from gridstead.errors import SchedulerUnavailable

RECORDED = Path(__file__).parents[2] / "adapters" / "slurm" / "recorded" / "24.11.5"
USER = f"0x{1:040d}"


class ScriptedRunner:
    """Answers by program; keeps what was asked."""

    def __init__(self, **answers):
        self.answers = {"sdiag": recorded("sdiag"), "sacct": recorded("sacct")} | answers
        self.asked = []

    def run(self, command):
        self.asked.append(command.argv)
        name = "sacct_json" if "--json" in command.argv else command.argv[0]
        answer = self.answers[name]
        if isinstance(answer, list):
            answer = answer.pop(0)
        return (
            answer
            if isinstance(answer, CommandResult)
            else CommandResult(exit_status=0, stdout=answer, stderr="")
        )

    @property
    def programs(self):
        return [argv[0] for argv in self.asked]


def recorded(situation):
    return (RECORDED / f"{situation}.txt").read_text(encoding="utf-8")


def failed(stderr="slurm_load_jobs error: Unable to contact slurm controller"):
    return CommandResult(exit_status=1, stdout="", stderr=stderr)


def accounting(runner, names=("0x1",)):
    return read.accounting(runner, FakeClock(), names, since=0)


def test_the_queue_is_looked_at_before_the_database():
    """The other way round a record could slip from the queue into the database between the two
    looks.
    """
    runner = ScriptedRunner(sacct_json=recorded("sacct-json"))

    assert accounting(runner).complete
    assert runner.programs == ["sdiag", "sacct", "sacct"]


def test_a_queue_that_is_not_empty_makes_silence_worthless():
    waiting = recorded("sdiag").replace("DBD Agent queue size: 0", "DBD Agent queue size: 3")

    assert not accounting(ScriptedRunner(sdiag=waiting, sacct="")).complete


def test_without_a_controller_records_are_still_true_but_silence_is_not():
    runner = ScriptedRunner(sdiag=failed(), sacct_json=recorded("sacct-json"))

    sample = accounting(runner)

    assert sample.attempts
    assert not sample.complete


def test_without_a_database_there_is_no_answer():
    with pytest.raises(SchedulerUnavailable):
        accounting(ScriptedRunner(sacct=failed("sacct: error: Problem talking to the database")))


def test_an_answer_with_a_complaint_is_none():
    with pytest.raises(SchedulerUnavailable):
        accounting(
            ScriptedRunner(
                sacct=CommandResult(exit_status=0, stdout="", stderr="sacct: error: half of it")
            )
        )


def test_exit_codes_of_failures_are_mended():
    sample = accounting(ScriptedRunner(sacct_json=recorded("sacct-json")))

    assert {3 << 8, 137 << 8, 9} == {
        row.exit_code for row in sample.attempts if row.state == "FAILED"
    }


def test_many_names_are_asked_for_in_several_commands():
    runner = ScriptedRunner(sacct="")

    accounting(runner, [f"0x{number:064x}" for number in range(2 * text.NAMES_PER_COMMAND + 1)])

    assert runner.programs.count("sacct") == 3
    assert max(len(word) for argv in runner.asked for word in argv) < 128 * 1024


def test_a_job_is_found_by_its_id():
    runner = ScriptedRunner(squeue=recorded("squeue-one"))

    found = read.find(runner, 1)

    assert (found.slurm_job_id, found.user) == (1, USER)
    assert read.find(runner, 2) is None


def test_an_unknown_job_is_not_found_and_no_answer_is_no_finding():
    assert (
        read.find(
            ScriptedRunner(squeue=failed("slurm_load_jobs error: Invalid job id specified")), 1
        )
        is None
    )
    with pytest.raises(SchedulerUnavailable):
        read.find(ScriptedRunner(squeue=failed()), 1)


def test_an_association_is_made_only_if_it_is_missing():
    runner = ScriptedRunner(sacctmgr=[recorded("associations")])

    read.associate(runner, USER, account="grid")

    assert len(runner.asked) == 1


def test_an_association_that_somebody_else_makes_first_is_fine():
    runner = ScriptedRunner(sacctmgr=["", failed("already exists"), recorded("associations")])

    read.associate(runner, USER, account="grid")


def test_an_association_that_cannot_be_made_is_told():
    with pytest.raises(SchedulerUnavailable):
        read.associate(
            ScriptedRunner(sacctmgr=["", failed("no such account"), ""]), USER, account="grid"
        )
