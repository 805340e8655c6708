# SPDX-License-Identifier: Apache-2.0
"""Tests of the commands of gridstead-submit on the login node, and of the result parsers."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from gridstead.adapters.slurm import wrapper
from gridstead.adapters.slurm.runner import CommandResult
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.supervisor.submission import GridUser, Script, Submission
from gridstead.errors import InvalidInput, SchedulerUnavailable, SubmitRejected, UnexpectedOutput

CHECKOUT = Path(__file__).parents[3]
PROGRAM = CHECKOUT / "roles/slurm/files/usr/local/sbin/gridstead-submit"
USER = GridUser(address=f"0x{1:040x}", uid=200001, gid=100000)
JOB_KEY = JobKey(
    job_id=JobId(chain_id=1, contract=f"0x{2:040x}", number=3), batch_location_hash="abc"
)
SUBMISSION = Submission(
    job_key=JOB_KEY,
    user=USER,
    resources=Resources(gpus=0, tasks=4, cpus_per_task=2, memory_per_cpu_mb=64),
    time_limit_min=5,
    script=Script(text="#!/bin/sh\n"),
)


@pytest.fixture(scope="module")
def program():
    """Return the program that the role installs, as a module."""
    return SimpleNamespace(**runpy.run_path(str(PROGRAM), run_name="gridstead_submit"))


@pytest.mark.parametrize(
    "command",
    [
        wrapper.submit(SUBMISSION, {}),
        wrapper.cancel(7, job_key=JOB_KEY),
        wrapper.extend(7, job_key=JOB_KEY, time_limit_min=9),
        wrapper.associate(USER.address),
    ],
)
def test_installed_program_accepts_the_rendered_commands(program, command):
    assert command.argv[:3] == ("sudo", "-n", "/usr/local/sbin/gridstead-submit")
    arguments = list(command.argv[3:])

    subcommand = program.parse(arguments)[0]

    assert subcommand == arguments[0]


def test_installed_program_reads_the_script_and_the_environment(program):
    environment = {"TOKEN": "a b\nc=d'\"é", "HOME": "/home/x"}

    script, read_environment = program.read_job(wrapper.submit(SUBMISSION, environment).stdin)

    assert script == "#!/bin/sh\n"
    assert read_environment == environment


CANCEL_ARGUMENTS = wrapper.cancel(7, job_key=JOB_KEY).argv[3:]


@pytest.mark.parametrize(
    "arguments",
    [
        [*CANCEL_ARGUMENTS, "--uid", "0"],
        CANCEL_ARGUMENTS[:-1],
        [*CANCEL_ARGUMENTS[:-1], "x"],
        ["shell"],
        [],
    ],
)
def test_installed_program_refuses_malformed_arguments(program, arguments):
    with pytest.raises(program.CommandError):
        program.parse(list(arguments))


def test_secrets_are_sent_on_standard_input_and_not_as_arguments():
    command = wrapper.submit(SUBMISSION, {"TOKEN": "secret"})

    assert "secret" not in " ".join(command.argv)
    assert "secret" not in repr(command)
    assert json.loads(command.stdin)["environment"] == {"TOKEN": "secret"}


def result(exit_status=0, stdout="", stderr=""):
    return CommandResult(exit_status=exit_status, stdout=stdout, stderr=stderr)


def test_slurm_job_id_of_a_submission_is_parsed():
    assert wrapper.parse_submitted(result(stdout="42\n"), "could not submit") == 42


@pytest.mark.parametrize("exit_status", [64, 69])
def test_refused_submission_is_rejected(exit_status):
    with pytest.raises(SubmitRejected):
        wrapper.parse_submitted(result(exit_status), "could not submit")


@pytest.mark.parametrize(
    "other_result",
    [
        result(75),
        result(1),
        result(255),
        result(-1),
        result(),
        result(stdout="x"),
        result(stdout="1;2"),
    ],
)
def test_unexpected_result_of_a_submission_raises_scheduler_unavailable(other_result):
    with pytest.raises(SchedulerUnavailable):
        wrapper.parse_submitted(other_result, "could not submit")


def test_successful_command_is_accepted():
    wrapper.check_success(result(), "could not cancel")


def test_exit_status_for_malformed_arguments_is_an_input_error():
    with pytest.raises(InvalidInput):
        wrapper.check_success(result(64), "could not cancel")


@pytest.mark.parametrize("exit_status", [69, 75, 1])
def test_failed_command_is_an_error(exit_status):
    with pytest.raises(SchedulerUnavailable):
        wrapper.check_success(result(exit_status), "could not cancel")


def test_user_is_parsed_from_its_passwd_line():
    line = f"{USER.address}:*:200001:100000:Wallet:/home/ldap-users/{USER.address}:/bin/bash\n"

    assert wrapper.parse_user(result(stdout=line), USER.address) == USER
    assert wrapper.parse_user(result(2), USER.address) is None


@pytest.mark.parametrize(
    "malformed_result",
    [result(1), result(stdout="x:y\n"), result(stdout="root:x:0:0:root:/root:/bin/sh\n")],
)
def test_malformed_passwd_line_is_an_error(malformed_result):
    with pytest.raises(UnexpectedOutput):
        wrapper.parse_user(malformed_result, USER.address)


@pytest.mark.parametrize(
    "listing", ["", "200002 directory /opt/a\n", "200001 symbolic link /opt/a\n"]
)
def test_directory_that_the_user_does_not_own_is_missing(listing):
    path = Path("/opt/a")

    messages = wrapper.parse_missing(result(1, listing), (path,), uid=200001)

    assert messages == ("directory /opt/a does not exist for uid 200001",)


def test_directories_that_the_user_owns_are_not_missing():
    paths = (Path("/home/a"), Path("/opt/a"))
    listing = "200001 directory /home/a\n200001 directory /opt/a\n"

    assert wrapper.parse_missing(result(0, listing), paths, uid=200001) == ()
