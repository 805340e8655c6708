# SPDX-License-Identifier: Apache-2.0
"""A job's output on the terminal, over a logger that comes and goes."""

import threading
from types import SimpleNamespace

import pytest

from gridstead.cli import job_output
from gridstead.cli.job_output import JobOutput
from gridstead.errors import LoggerUnavailable, NotAllowed

CLIENT = SimpleNamespace(wallet=SimpleNamespace(open=lambda: None))


@pytest.fixture
def read(monkeypatch):
    """Sets what each connection to the logger yields: lines, then perhaps an error; the last one stays open."""
    monkeypatch.setattr(job_output, "RETRY_S", 0.001)
    monkeypatch.setattr(job_output, "POLL_S", 0.001)
    monkeypatch.setattr(job_output, "QUIET_S", 0.05)
    monkeypatch.setattr(job_output, "FIRST_LINE_S", 0.05)
    end = threading.Event()

    def set_connections(*connections):
        waiting = iter(connections)

        def read_lines(_client, _number):
            for one in next(waiting, [None]):
                if one is None:
                    end.wait()
                    return
                if isinstance(one, Exception):
                    raise one
                yield one, 0

        monkeypatch.setattr(job_output, "read_lines", read_lines)

    yield set_connections
    end.set()


def shown(lines):
    output = JobOutput(CLIENT, 7, lambda line, _: lines.append(line))
    output.start()
    output.drain()
    output.stop()
    return output


def test_a_broken_stream_is_read_again_and_each_line_shown_once(read):
    read(["a", "b", LoggerUnavailable("gone")], [LoggerUnavailable("still gone")], ["a", "b", "c", None])
    lines = []

    output = shown(lines)

    assert (lines, output.error) == (["a", "b", "c"], None)


def test_a_refusal_is_final_and_kept(read):
    read([NotAllowed("could not read at the logger")], ["never", None])
    lines = []

    output = shown(lines)

    assert lines == []
    assert isinstance(output.error, NotAllowed)


def test_a_logger_that_does_not_answer_is_not_an_empty_log(read):
    read(*([LoggerUnavailable("gone")] for _ in range(10_000)))

    assert isinstance(shown([]).error, LoggerUnavailable)


def test_an_empty_log_is_no_error(read):
    read([None])

    assert shown([]).error is None
