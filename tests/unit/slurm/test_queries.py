# SPDX-License-Identifier: Apache-2.0
"""Queries that run Slurm's commands: the order of the commands, and missing answers."""

import json
from itertools import chain

import pytest
from tests.fakes.store import FakeClock

from gridstead.adapters.slurm import commands, queries
from gridstead.adapters.slurm.runner import CommandResult
from gridstead.errors import SchedulerUnavailable

USER = f"0x{1:040d}"
MAX_ARGUMENT_BYTES = 128 * 1024  # the kernel's limit


class ScriptedRunner:
    """A runner of commands that returns a prepared answer for each program.

    An answer is the standard output, a CommandResult, or a list of answers for successive runs.
    """

    def __init__(self, answers):
        self.answers = answers
        self.commands = []

    def run(self, command):
        self.commands.append(command.argv)
        program = command.argv[0]
        if "--json" in command.argv:
            program = "sacct_json"
        elif "--format=JobIDRaw,ExitCode" in command.argv:
            program = "sacct_steps"
        answer = self.answers[program]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, CommandResult):
            return answer
        return CommandResult(exit_status=0, stdout=answer, stderr="")

    @property
    def programs(self):
        return [argv[0] for argv in self.commands]


@pytest.fixture
def make_runner(read_recorded):
    """Return a function that creates a runner with the answers of its arguments.

    Unless an argument replaces them, the answers of sdiag and sacct are the recorded ones, and no
    job has steps.
    """

    def make(**answers):
        return ScriptedRunner(
            {
                "sdiag": read_recorded("sdiag"),
                "sacct": read_recorded("sacct"),
                "sacct_steps": "",
                **answers,
            }
        )

    return make


def failed_result(stderr="slurm_load_jobs error: Unable to contact slurm controller"):
    return CommandResult(exit_status=1, stdout="", stderr=stderr)


def query_slurmdbd(runner, names=("0x1",)):
    return queries.list_records(runner, FakeClock(), names, since=0)


def test_queue_to_slurmdbd_is_checked_before_the_database_is_read(make_runner, read_recorded):
    """The queue holds records that slurmctld has not yet sent to the database.

    slurmctld may send a record between the two reads. The first read then finds the record in the
    queue.
    """
    runner = make_runner(sacct_json=read_recorded("sacct-json"))

    assert query_slurmdbd(runner).is_complete
    assert runner.programs == ["sdiag", "sacct", "sacct", "sacct"]


def test_sample_is_incomplete_if_the_queue_to_slurmdbd_is_not_empty(make_runner, read_recorded):
    sdiag_output = read_recorded("sdiag").replace(
        "DBD Agent queue size: 0", "DBD Agent queue size: 3"
    )

    assert not query_slurmdbd(make_runner(sdiag=sdiag_output, sacct="")).is_complete


def test_sample_is_incomplete_if_slurmctld_does_not_answer(make_runner, read_recorded):
    runner = make_runner(sdiag=failed_result(), sacct_json=read_recorded("sacct-json"))

    sample = query_slurmdbd(runner)

    assert sample.attempts
    assert not sample.is_complete


def test_missing_database_is_an_error(make_runner):
    runner = make_runner(sacct=failed_result("sacct: error: Problem talking to the database"))

    with pytest.raises(SchedulerUnavailable):
        query_slurmdbd(runner)


def test_error_message_with_exit_status_0_is_an_error(make_runner):
    partial_output = CommandResult(exit_status=0, stdout="", stderr="sacct: error: half of it")

    with pytest.raises(SchedulerUnavailable):
        query_slurmdbd(make_runner(sacct=partial_output))


def test_exit_codes_of_failures_are_read_from_the_json_output(make_runner, read_recorded):
    sample = query_slurmdbd(make_runner(sacct_json=read_recorded("sacct-json")))

    exit_codes = set()
    for attempt in sample.attempts:
        if attempt.state == "FAILED":
            exit_codes.add(attempt.exit_code)
    # The encoding is that of wait(2): exit code 3 is 3 << 8, and a death by signal 9 is 9.
    assert exit_codes == {3 << 8, 137 << 8, 9}


def test_step_that_exceeded_its_memory_is_read_from_the_json_output(make_runner, read_recorded):
    """Slurm marks such a step with the signal 125. The exit code of the job does not show it."""
    document = json.loads(read_recorded("sacct-json"))
    job = document["jobs"][0]
    job["derived_exit_code"]["signal"]["id"] = {"set": True, "infinite": False, "number": 125}
    sample = query_slurmdbd(make_runner(sacct_json=json.dumps(document)))

    job_ids = set()
    for attempt in sample.attempts:
        if attempt.is_step_out_of_memory:
            job_ids.add(attempt.slurm_job_id)
            assert attempt.exit_code == 3 << 8
    assert job_ids == {job["job_id"]}


def test_step_with_which_a_job_failed_is_read(make_runner, read_recorded):
    steps_listing = "2|3:0\n2.batch|3:0\n2.extern|0:0\n2.0|0:0\n2.1|3:0\n"
    runner = make_runner(sacct_json=read_recorded("sacct-json"), sacct_steps=steps_listing)

    failed_steps = {
        attempt.slurm_job_id: attempt.failed_step for attempt in query_slurmdbd(runner).attempts
    }
    assert failed_steps[2] == 2
    assert failed_steps[1] is None


def test_exit_codes_are_read_if_the_output_has_no_derived_exit_code(make_runner, read_recorded):
    document = json.loads(read_recorded("sacct-json"))
    for job in document["jobs"]:
        del job["derived_exit_code"]
    sample = query_slurmdbd(make_runner(sacct_json=json.dumps(document)))

    assert 137 << 8 in {attempt.exit_code for attempt in sample.attempts}


def test_many_names_are_split_into_several_commands(make_runner):
    runner = make_runner(sacct="")
    names = [f"0x{number:064x}" for number in range(2 * commands.NAMES_PER_COMMAND + 1)]

    query_slurmdbd(runner, names)

    assert runner.programs.count("sacct") == 3
    for argument in chain.from_iterable(runner.commands):
        assert len(argument) < MAX_ARGUMENT_BYTES


def test_job_is_found_by_its_id(make_runner, read_recorded):
    runner = make_runner(squeue=read_recorded("squeue-one"))

    attempt = queries.find(runner, 1)

    assert attempt.slurm_job_id == 1
    assert attempt.user == USER
    assert queries.find(runner, 2) is None


def test_unknown_job_is_not_found(make_runner):
    runner = make_runner(squeue=failed_result("slurm_load_jobs error: Invalid job id specified"))

    assert queries.find(runner, 1) is None


def test_missing_answer_of_squeue_is_an_error(make_runner):
    with pytest.raises(SchedulerUnavailable):
        queries.find(make_runner(squeue=failed_result()), 1)


def test_existing_association_is_not_created_again(make_runner, read_recorded):
    runner = make_runner(sacctmgr=[read_recorded("associations")])

    queries.associate(runner, USER, account="grid")

    assert len(runner.commands) == 1


def test_association_that_is_created_concurrently_is_accepted(make_runner, read_recorded):
    runner = make_runner(
        sacctmgr=["", failed_result("already exists"), read_recorded("associations")]
    )

    queries.associate(runner, USER, account="grid")

    assert len(runner.commands) == 3


def test_association_that_cannot_be_created_is_an_error(make_runner):
    runner = make_runner(sacctmgr=["", failed_result("no such account"), ""])

    with pytest.raises(SchedulerUnavailable):
        queries.associate(runner, USER, account="grid")
