# SPDX-License-Identifier: Apache-2.0
"""The order of Slurm's commands, and the handling of missing answers."""

from itertools import chain
from pathlib import Path

import pytest
from tests.fakes.store import FakeClock

from gridstead.adapters.slurm import read, text
from gridstead.adapters.slurm.command import CommandResult
from gridstead.errors import SchedulerUnavailable

ALL_RECORDED = Path(__file__).parents[2] / "adapters" / "slurm" / "recorded"
RECORDED = ALL_RECORDED / "24.11.5"
VERSIONS = [path.name for path in ALL_RECORDED.iterdir() if path.is_dir()]
USER = f"0x{1:040d}"


@pytest.fixture(autouse=True, params=VERSIONS)
def recorded_version(request, monkeypatch):
    """Run each test with the output of each recorded version."""
    monkeypatch.setitem(globals(), "RECORDED", ALL_RECORDED / request.param)


class ScriptedRunner:
    """Returns prepared answers by program, and records the commands."""

    def __init__(self, **answers):
        self.answers = {"sdiag": recorded("sdiag"), "sacct": recorded("sacct")} | answers
        self.commands = []

    def run(self, command):
        self.commands.append(command.argv)
        name = "sacct_json" if "--json" in command.argv else command.argv[0]
        answer = self.answers[name]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, CommandResult):
            return answer
        return CommandResult(exit_status=0, stdout=answer, stderr="")

    @property
    def programs(self):
        return [argv[0] for argv in self.commands]


def recorded(situation):
    return (RECORDED / f"{situation}.txt").read_text(encoding="utf-8")


def failed(stderr="slurm_load_jobs error: Unable to contact slurm controller"):
    return CommandResult(exit_status=1, stdout="", stderr=stderr)


def accounting(runner, names=("0x1",)):
    return read.list_records(runner, FakeClock(), names, since=0)


def test_queue_to_slurmdbd_is_checked_before_the_database_is_read():
    """In the other order a record could move from the queue to the database in between."""
    runner = ScriptedRunner(sacct_json=recorded("sacct-json"))

    assert accounting(runner).is_complete
    assert runner.programs == ["sdiag", "sacct", "sacct"]


def test_sample_is_incomplete_if_the_queue_to_slurmdbd_is_not_empty():
    queued = recorded("sdiag").replace("DBD Agent queue size: 0", "DBD Agent queue size: 3")

    assert not accounting(ScriptedRunner(sdiag=queued, sacct="")).is_complete


def test_sample_without_a_controller_has_records_but_is_incomplete():
    runner = ScriptedRunner(sdiag=failed(), sacct_json=recorded("sacct-json"))

    sample = accounting(runner)

    assert sample.attempts
    assert not sample.is_complete


def test_missing_database_is_an_error():
    with pytest.raises(SchedulerUnavailable):
        accounting(ScriptedRunner(sacct=failed("sacct: error: Problem talking to the database")))


def test_answer_with_an_error_message_is_an_error():
    partial = CommandResult(exit_status=0, stdout="", stderr="sacct: error: half of it")

    with pytest.raises(SchedulerUnavailable):
        accounting(ScriptedRunner(sacct=partial))


def test_exit_codes_of_failures_are_corrected():
    sample = accounting(ScriptedRunner(sacct_json=recorded("sacct-json")))

    failures = [attempt for attempt in sample.attempts if attempt.state == "FAILED"]
    assert {attempt.exit_code for attempt in failures} == {3 << 8, 137 << 8, 9}


def test_many_names_are_split_into_several_commands():
    runner = ScriptedRunner(sacct="")

    accounting(runner, [f"0x{number:064x}" for number in range(2 * text.NAMES_PER_COMMAND + 1)])

    assert runner.programs.count("sacct") == 3
    assert max(map(len, chain.from_iterable(runner.commands))) < 128 * 1024


def test_job_is_found_by_its_id():
    runner = ScriptedRunner(squeue=recorded("squeue-one"))

    job = read.find(runner, 1)

    assert (job.slurm_job_id, job.user) == (1, USER)
    assert read.find(runner, 2) is None


def test_unknown_job_is_not_found():
    unknown = failed("slurm_load_jobs error: Invalid job id specified")

    assert read.find(ScriptedRunner(squeue=unknown), 1) is None


def test_missing_answer_of_squeue_is_an_error():
    with pytest.raises(SchedulerUnavailable):
        read.find(ScriptedRunner(squeue=failed()), 1)


def test_existing_association_is_not_created_again():
    runner = ScriptedRunner(sacctmgr=[recorded("associations")])

    read.associate(runner, USER, account="grid")

    assert len(runner.commands) == 1


def test_association_that_is_created_concurrently_is_accepted():
    runner = ScriptedRunner(sacctmgr=["", failed("already exists"), recorded("associations")])

    read.associate(runner, USER, account="grid")

    assert len(runner.commands) == 3


def test_association_that_cannot_be_created_is_an_error():
    runner = ScriptedRunner(sacctmgr=["", failed("no such account"), ""])

    with pytest.raises(SchedulerUnavailable):
        read.associate(runner, USER, account="grid")
