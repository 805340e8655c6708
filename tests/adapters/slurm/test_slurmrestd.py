# SPDX-License-Identifier: Apache-2.0
"""Tests of LocalSlurm, the client of slurmrestd, with a fake slurmrestd."""

import contextlib
import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.fakes.store import FakeClock

from gridstead.adapters.slurm.rest import TOKEN_LIFE_S, LocalSlurm
from gridstead.adapters.slurm.runner import CommandResult
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.supervisor.submission import GridUser, Script, Submission
from gridstead.errors import (
    AssociationUnknown,
    ConfigError,
    SchedulerUnavailable,
    SubmitRejected,
)

SUBMISSION = Submission(
    job_key=JobKey(
        job_id=JobId(chain_id=1, contract=f"0x{2:040x}", number=3), batch_location_hash="abc"
    ),
    user=GridUser(address=f"0x{1:040x}", uid=200001, gid=100000),
    resources=Resources(gpus=2, tasks=4, cpus_per_task=2, memory_per_cpu_mb=64),
    time_limit_min=5,
    script=Script(text="#!/bin/sh\n", environment={"TOKEN": "se=cret", "HOME": "/root"}),
)


class RestHandler(BaseHTTPRequestHandler):
    """Records each request and sends the next answer that the test has prepared.

    An answer is (status, content). If the answer is None, the server closes the connection.
    """

    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.requests.append((self.command, self.path, dict(self.headers), body))
        next_answer = self.server.answers.pop(0)
        if next_answer is None:
            self.close_connection = True
            return
        status, content = next_answer
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_DELETE = answer  # noqa: N815 # names that the base class calls

    def address_string(self):
        return "local"

    def log_message(self, *_):
        pass


class FakeRestServer(socketserver.ThreadingUnixStreamServer):
    """A fake slurmrestd. Each item of ``requests`` is (method, path, headers, body)."""

    daemon_threads = True
    answers: list
    requests: list


class RestSetup:
    """LocalSlurm with a fake slurmrestd. This object also runs scontrol for LocalSlurm."""

    def __init__(self, path):
        self.server = FakeRestServer(str(path), RestHandler)
        self.server.answers = []
        self.server.requests = []
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self.thread.start()
        self.clock = FakeClock()
        self.version = "24.11.5"
        self.version_queries = 0
        self.tokens = iter(f"token-{number}" for number in range(9))
        self.rest = LocalSlurm(
            runner=self,
            socket=path,
            clock=self.clock,
            partition="main",
            account="grid",
            homes=Path("/home/ldap-users"),
        )

    def run(self, command):
        """Run scontrol, which prints the version or a new token."""
        if "--version" in command.argv:
            self.version_queries += 1
            return CommandResult(exit_status=0, stdout=f"slurm-wlm {self.version}\n", stderr="")
        token = f"SLURM_JWT={next(self.tokens)}\n"
        return CommandResult(exit_status=0, stdout=token, stderr="")

    def prepare(self, *answers):
        """Set the answers to the next requests, in this order."""
        self.server.answers += answers

    @property
    def requests(self):
        return self.server.requests

    def close(self):
        self.rest.close()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def setup(tmp_path):
    setup = RestSetup(tmp_path / "socket")
    yield setup
    setup.close()


def errors(*numbers):
    """Return the content of an answer with these error numbers."""
    return {
        "errors": [
            {"error_number": number, "error": "no", "description": "why not"} for number in numbers
        ]
    }


def test_a_rejection_contains_the_error_and_its_description(setup):
    """slurmrestd 24.11.5 sends this answer for a job above the limit of its QOS."""
    reason = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    error = {"description": "Batch job submission failed", "error_number": 2050, "error": reason}
    setup.prepare((200, {"errors": [error]}))

    with pytest.raises(SubmitRejected) as raised:
        setup.rest.submit(SUBMISSION)

    assert raised.value.detail == f"slurmrestd: 2050 Batch job submission failed: {reason}"


def test_submit_sends_all_fields_of_the_job(setup):
    setup.prepare((200, {"job_id": 7, "errors": []}))

    assert setup.rest.submit(SUBMISSION) == 7

    command, path, headers, body = setup.requests[0]
    assert (command, path) == ("POST", "/slurm/v0.0.42/job/submit")
    assert headers["X-SLURM-USER-NAME"] == "slurm"
    home = f"/home/ldap-users/{SUBMISSION.user.address}"
    job = body["job"]
    environment = dict(line.split("=", 1) for line in job.pop("environment"))
    # The attributes of SUBMISSION, in the fields of slurmrestd.
    assert job == {
        "name": SUBMISSION.job_key.job_id.slurm_job_name,
        "admin_comment": str(SUBMISSION.job_key),
        "user_id": "200001",
        "group_id": "100000",
        "account": "grid",
        "partition": "main",
        "tasks": 4,
        "cpus_per_task": 2,
        "memory_per_cpu": {"set": True, "infinite": False, "number": 64},
        "time_limit": {"set": True, "infinite": False, "number": 5},
        "current_working_directory": home,
        "standard_output": f"{home}/{SUBMISSION.job_key.job_id.slurm_job_name}.out",
        "requeue": False,
        "tres_per_job": "gres/gpu:2",
    }
    assert environment["TOKEN"] == "se=cret"
    assert environment["HOME"] == home  # differs from the value in SUBMISSION


def test_the_token_is_renewed_shortly_before_it_expires(setup):
    setup.prepare(*[(200, {"job_id": 7, "errors": []})] * 3)

    setup.rest.submit(SUBMISSION)
    setup.rest.submit(SUBMISSION)
    setup.clock.advance(TOKEN_LIFE_S - 10)
    setup.rest.submit(SUBMISSION)

    tokens = [headers["X-SLURM-USER-TOKEN"] for _, _, headers, _ in setup.requests]
    assert tokens == ["token-0", "token-0", "token-1"]


@pytest.mark.parametrize("refusal", [(401, b"Authentication failure"), (511, errors(1007))])
def test_a_refused_token_is_renewed_once(setup, refusal):
    """slurmrestd refuses an expired token. slurmctld refuses a token signed with an older key."""
    setup.prepare(refusal, (200, {"job_id": 7, "errors": []}))
    assert setup.rest.submit(SUBMISSION) == 7

    setup.prepare(refusal, refusal)
    with pytest.raises(SchedulerUnavailable):
        setup.rest.submit(SUBMISSION)


# Numbers in slurm_releases/24.11/rest.toml that mean a rejection.
@pytest.mark.parametrize("number", [2000, 2002, 2014, 2050, 9202])
def test_a_refusal_of_slurm_raises_submit_rejected(setup, number):
    content = errors(number)
    content["job_submit_user_msg"] = "the guard says no"
    setup.prepare((500, content))

    with pytest.raises(SubmitRejected) as raised:
        setup.rest.submit(SUBMISSION)

    assert "the guard says no" in raised.value.detail


def test_an_unknown_association_raises_association_unknown(setup):
    setup.prepare((500, errors(2045)))

    with pytest.raises(AssociationUnknown):
        setup.rest.submit(SUBMISSION)


@pytest.mark.parametrize(
    "answer",
    [
        # Error numbers that are not rejections, or with which a later attempt may succeed.
        (500, errors(1801)),
        (500, errors(5005)),
        (500, errors(2007)),
        (500, errors(2000, 2027)),
        (500, errors(2000, 2045)),
        # Contradictory, incomplete or invalid answers.
        (200, {**errors(2000), "job_id": 7}),
        (200, {"errors": []}),
        (200, {"errors": [], "job_id": 0}),
        (200, {"errors": [], "job_id": "7"}),
        (200, {"job_id": 7}),
        (200, [7]),
        (200, b"<html>"),
        (503, {"errors": []}),
    ],
)
def test_answer_that_is_neither_success_nor_rejection_raises_scheduler_unavailable(setup, answer):
    setup.prepare(answer)

    with pytest.raises(SchedulerUnavailable) as raised:
        setup.rest.submit(SUBMISSION)

    assert type(raised.value) is SchedulerUnavailable  # not a subclass


# httpcore does not close a socket if the connection fails, so Python warns about the open socket.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
def test_a_missing_socket_raises_scheduler_unavailable(tmp_path, setup):
    unreachable_slurm = LocalSlurm(
        runner=setup,
        socket=tmp_path / "none",
        clock=FakeClock(),
        partition="main",
        account="grid",
        homes=Path("/home"),
    )

    with pytest.raises(SchedulerUnavailable):
        unreachable_slurm.submit(SUBMISSION)


def test_cancel_and_extend_ignore_ended_and_unknown_jobs(setup):
    # 2017: the job id is unknown. 2021: the job has ended.
    setup.prepare((500, errors(2017)), (500, errors(2021)), (200, {"errors": []}))

    setup.rest.cancel(7)
    setup.rest.extend(7, time_limit_min=9)
    setup.rest.cancel(8)

    assert [(command, path) for command, path, _, _ in setup.requests] == [
        ("DELETE", "/slurm/v0.0.42/job/7"),
        ("POST", "/slurm/v0.0.42/job/7"),
        ("DELETE", "/slurm/v0.0.42/job/8"),
    ]
    _, _, _, extend_body = setup.requests[1]
    assert extend_body == {"time_limit": {"set": True, "infinite": False, "number": 9}}


def test_communication_error_of_cancel_raises_scheduler_unavailable(setup):
    setup.prepare((500, errors(1801)))

    with pytest.raises(SchedulerUnavailable):
        setup.rest.cancel(7)


def test_an_unknown_release_of_slurm_raises_config_error(setup):
    setup.version = "25.11.2"

    with pytest.raises(ConfigError) as raised:
        setup.rest.submit(SUBMISSION)

    assert raised.value.message == "Slurm 25.11.2 is not supported"
    assert raised.value.detail == "supported releases: 24.11"
    assert setup.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"errors": [], "meta": {"slurm": {"release": "25.05.1"}}}),  # Slurm was upgraded
        (404, b"Unable find requested URL"),  # the new release has another data parser
    ],
)
def test_the_version_is_read_again_after_an_upgrade(setup, answer):
    setup.prepare((200, {"errors": []}), (200, {"errors": []}), answer, (200, {"errors": []}))

    setup.rest.cancel(1)
    setup.rest.cancel(2)
    assert setup.version_queries == 1
    with contextlib.suppress(SchedulerUnavailable):  # raised for status 404
        setup.rest.cancel(3)
    setup.rest.cancel(4)
    assert setup.version_queries == 2


def test_the_version_is_read_again_after_a_lost_connection(setup):
    setup.prepare((200, {"errors": []}))
    setup.rest.cancel(1)
    setup.prepare(None)  # The server closes the connection without an answer.
    with pytest.raises(SchedulerUnavailable):
        setup.rest.cancel(2)
    setup.prepare((200, {"errors": []}))

    setup.rest.cancel(3)

    assert setup.version_queries == 2
