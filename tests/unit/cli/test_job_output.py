# SPDX-License-Identifier: Apache-2.0
"""A job's output on the terminal, over a logger that comes and goes."""

import json
import threading
from types import SimpleNamespace

import pytest

from gridstead.adapters.logger import Lines
from gridstead.cli import job_output
from gridstead.cli.job_output import (
    JobOutput,
    JobStream,
    OutputLine,
    only,
    show,
    show_as_json,
    show_raw,
)
from gridstead.domain.log import Stream
from gridstead.errors import LoggerUnavailable, NotAllowed

CLIENT = SimpleNamespace(wallet=SimpleNamespace(open=lambda: None))
LOG = [b"a", b"b", b"c", b"d", b"e"]


def lines(first, *data):
    return Lines(
        lines=data, timestamp_ns=0, stream=Stream.STDOUT, first=first, resume=first + len(data) - 1
    )


@pytest.fixture
def connections(monkeypatch):
    """What each connection to the logger is asked, and sets what it yields: lines, then perhaps an
    error.
    """
    monkeypatch.setattr(job_output, "RETRY_S", 0.001)
    monkeypatch.setattr(job_output, "POLL_S", 0.001)
    monkeypatch.setattr(job_output, "PATIENCE_S", 0.3)
    asked, waiting = [], []

    def read(_client, _job, *, after, until_now):
        asked.append((after, until_now))
        for one in waiting.pop(0) if waiting else [LoggerUnavailable("gone")]:
            if isinstance(one, Exception):
                raise one
            yield one

    monkeypatch.setattr(job_output, "read", read)
    return SimpleNamespace(asked=asked, set=waiting.extend)


def shown(seen=None):
    output = JobOutput(
        CLIENT, None, lambda line: None if seen is None else seen.append((line.number, line.data))
    )
    output.drain()
    output.stop()
    return output


def test_a_broken_stream_goes_on_where_it_was(connections):
    gone = LoggerUnavailable("gone")
    connections.set([[lines(1, b"a", b"b"), gone], [gone], [lines(3, b"c")]])
    seen = []

    output = shown(seen)

    assert (seen, output.error) == ([(1, b"a"), (2, b"b"), (3, b"c")], None)
    assert connections.asked == [(0, True), (2, True), (2, True)]


def test_lines_that_come_again_are_shown_once(connections):
    connections.set([[lines(1, b"a", b"b"), lines(1, b"a", b"b", b"c"), lines(2, b"b")]])
    seen = []

    shown(seen)

    assert seen == [(1, b"a"), (2, b"b"), (3, b"c")]


def test_what_follows_and_what_is_drained_is_shown_once(connections, monkeypatch):
    following = threading.Event()

    def read(_client, _job, *, after, until_now):
        for number in range(after + 1, 6):
            if number == 3 and not until_now:
                following.set()
                threading.Event().wait(20)
            yield lines(number, LOG[number - 1])

    monkeypatch.setattr(job_output, "read", read)
    seen = []
    output = JobOutput(CLIENT, None, lambda line: seen.append(line.data))

    output.start()
    assert following.wait(10)
    output.drain()
    output.stop()

    assert seen == LOG


def test_a_refusal_is_final_and_kept(connections):
    connections.set([[NotAllowed("could not read at the logger")], [lines(1, b"never")]])
    seen = []

    output = shown(seen)

    assert seen == []
    assert isinstance(output.error, NotAllowed)


def test_a_logger_that_does_not_answer_is_not_an_empty_log(connections):
    assert isinstance(shown().error, LoggerUnavailable)


def test_an_empty_log_is_no_error(connections):
    connections.set([[]])

    assert shown().error is None


class TestShow:
    def line(self, data, stream=Stream.STDOUT):
        return OutputLine(number=3, data=data, timestamp_ns=7, stream=stream)

    def test_terminal_gets_no_escapes_unless_raw(self, capfdbinary):
        data = b"\x1b]0;owned\x07 red \x1b[31m \xff \r over"

        show(self.line(data))
        plain = capfdbinary.readouterr().out
        show_raw(self.line(data))

        assert not set(plain) & {0x1B, 0x07, 0x0D}
        assert b"red" in plain
        assert capfdbinary.readouterr().out == data + b"\n"

    @pytest.mark.parametrize("print_line", [show, show_raw])
    @pytest.mark.parametrize("stream", [Stream.STDERR, Stream.GRID])
    def test_stderr_and_what_the_grid_says_go_to_stderr(self, capfdbinary, print_line, stream):
        print_line(self.line(b"bad", stream))

        assert capfdbinary.readouterr() == (b"", b"bad\n")

    @pytest.mark.parametrize(
        ("wanted", "hidden"), [(JobStream.STDOUT, Stream.STDERR), (JobStream.STDERR, Stream.STDOUT)]
    )
    def test_one_stream_hides_only_what_is_known_to_be_of_the_other(self, wanted, hidden):
        seen = []
        for stream in Stream:
            only(wanted, seen.append)(self.line(b"", stream))

        assert {line.stream for line in seen} == set(Stream) - {hidden}

    def test_json_tells_number_and_stream(self, capsys):
        show_as_json(self.line(b"\xff\x1b", Stream.STDERR))

        told = capsys.readouterr().out
        assert json.loads(told) == {
            "line": "\ufffd\x1b",
            "number": 3,
            "stream": "stderr",
            "timestamp_ns": 7,
        }
        assert "\x1b" not in told
