# SPDX-License-Identifier: Apache-2.0
"""The output of a job on the terminal, with and without a lost connection to the logger."""

import json
import threading
from types import SimpleNamespace

import pytest

from gridstead.adapters.logs.client import Lines
from gridstead.cli import job_output
from gridstead.cli.job_output import (
    JobOutput,
    JobStream,
    OutputLine,
    filter_stream,
    print_as_json,
    print_escaped,
    print_raw,
)
from gridstead.domain.logs.log import Stream
from gridstead.errors import LoggerUnavailable, NotAllowed

CLIENT_SETTINGS = SimpleNamespace(wallet=SimpleNamespace(open=lambda: None))
CONNECTION_LOST = LoggerUnavailable("connection lost")
LOG_LINES = [b"a", b"b", b"c", b"d", b"e"]


def logger_lines(first, *data):
    """Return a message of the logger. ``first`` is the number of the first line.

    ``resume`` is the number of the last line of the message. The next request continues after that
    line.
    """
    return Lines(
        lines=data, timestamp_ns=0, stream=Stream.STDOUT, first=first, resume=first + len(data) - 1
    )


@pytest.fixture
def fake_logger(monkeypatch):
    """Replace the logger with a fake that records requests and returns prepared answers in order.

    An answer is a list of messages and errors. A request fails if no prepared answer is left.
    """
    monkeypatch.setattr(job_output, "RETRY_S", 0.001)
    monkeypatch.setattr(job_output, "POLL_S", 0.001)
    monkeypatch.setattr(job_output, "IDLE_TIMEOUT_S", 0.3)
    requests = []
    answers = []

    def read(_client, _job, *, after, until_now):
        requests.append((after, until_now))
        if not answers:
            raise CONNECTION_LOST
        answer = answers.pop(0)
        for lines_or_error in answer:
            if isinstance(lines_or_error, Exception):
                raise lines_or_error
            yield lines_or_error

    monkeypatch.setattr(job_output, "read", read)
    return SimpleNamespace(requests=requests, prepare=answers.extend)


def print_all():
    """Read the whole output of a job. Return the JobOutput and the lines that it printed."""
    printed_lines = []
    output = JobOutput(
        CLIENT_SETTINGS, None, lambda line: printed_lines.append((line.number, line.data))
    )
    output.print_remaining()
    output.stop()
    return output, printed_lines


def test_broken_stream_is_resumed(fake_logger):
    fake_logger.prepare(
        [
            [logger_lines(1, b"a", b"b"), CONNECTION_LOST],
            [CONNECTION_LOST],
            [logger_lines(3, b"c")],
        ]
    )

    output, printed = print_all()

    assert printed == [(1, b"a"), (2, b"b"), (3, b"c")]
    assert output.error is None
    # A request contains the number of the last line that was read, and whether the answer must end
    # at the current end of the log.
    assert fake_logger.requests == [(0, True), (2, True), (2, True)]


def test_repeated_lines_are_printed_once(fake_logger):
    fake_logger.prepare(
        [[logger_lines(1, b"a", b"b"), logger_lines(1, b"a", b"b", b"c"), logger_lines(2, b"b")]]
    )

    _, printed = print_all()

    assert printed == [(1, b"a"), (2, b"b"), (3, b"c")]


def test_line_that_is_read_twice_is_printed_once(fake_logger, monkeypatch):
    """``start`` follows the log in a thread. ``print_remaining`` reads the log up to its end."""
    reached_line_3 = threading.Event()

    def read(_client, _job, *, after, until_now):
        for number in range(after + 1, 6):
            if number == 3 and not until_now:
                reached_line_3.set()
                # Block, as the logger does until the job writes more lines.
                threading.Event().wait(20)
            yield logger_lines(number, LOG_LINES[number - 1])

    monkeypatch.setattr(job_output, "read", read)
    printed = []
    output = JobOutput(CLIENT_SETTINGS, None, lambda line: printed.append(line.data))

    output.start()
    assert reached_line_3.wait(10)
    output.print_remaining()
    output.stop()

    assert printed == LOG_LINES


def test_refusal_is_not_retried(fake_logger):
    fake_logger.prepare([[NotAllowed("could not read at the logger")], [logger_lines(1, b"never")]])

    output, printed = print_all()

    assert printed == []
    assert isinstance(output.error, NotAllowed)


def test_unreachable_logger_is_an_error(fake_logger):
    output, _ = print_all()

    assert isinstance(output.error, LoggerUnavailable)


def test_empty_log_is_not_an_error(fake_logger):
    fake_logger.prepare([[]])

    output, _ = print_all()

    assert output.error is None


class TestPrintedLine:
    def line(self, data, stream=Stream.STDOUT):
        return OutputLine(number=3, data=data, timestamp_ns=7, stream=stream)

    def test_control_characters_are_escaped_except_in_raw_output(self, capfdbinary):
        data = b"\x1b]0;owned\x07 red \x1b[31m \xff \r over"

        print_escaped(self.line(data))
        escaped_output = capfdbinary.readouterr().out
        print_raw(self.line(data))
        raw = capfdbinary.readouterr().out

        assert set(escaped_output).isdisjoint(b"\x1b\x07\r")
        assert b"red" in escaped_output
        assert raw == data + b"\n"

    @pytest.mark.parametrize("print_line", [print_escaped, print_raw])
    @pytest.mark.parametrize("stream", [Stream.STDERR, Stream.GRID])
    def test_stderr_and_grid_messages_are_printed_to_stderr(self, capfdbinary, print_line, stream):
        print_line(self.line(b"bad", stream))

        assert capfdbinary.readouterr() == (b"", b"bad\n")

    @pytest.mark.parametrize(
        ("selected", "hidden"),
        [(JobStream.STDOUT, Stream.STDERR), (JobStream.STDERR, Stream.STDOUT)],
    )
    def test_selected_stream_hides_only_the_other_stream_of_the_job(self, selected, hidden):
        printed = []
        print_selected = filter_stream(selected, printed.append)
        for stream in Stream:
            print_selected(self.line(b"", stream))

        assert {line.stream for line in printed} == set(Stream) - {hidden}

    def test_json_of_a_line_has_text_number_stream_and_time(self, capsys):
        print_as_json(self.line(b"\xff\x1b", Stream.STDERR))

        out = capsys.readouterr().out
        assert json.loads(out) == {
            "line": "\ufffd\x1b",
            "number": 3,
            "stream": "stderr",
            "timestamp_ns": 7,
        }
        assert "\x1b" not in out
