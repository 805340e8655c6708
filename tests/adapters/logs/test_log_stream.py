# SPDX-License-Identifier: Apache-2.0
"""The two threads of a job's log writer, and failures of the logger.

The *pump* copies the job's output and puts its lines into a spool on disk. The *sender* takes the
lines from the spool in chunks and sends the chunks to the logger.
"""

from __future__ import annotations

import os
import threading
import time

import pytest

from gridstead.adapters.logs import stream
from gridstead.adapters.logs.spool import Spool
from gridstead.adapters.logs.stream import MAX_LINE_BYTES, READ_BYTES, LogSender, pump
from gridstead.domain.logs.log import Stream
from gridstead.errors import ConfigError, LoggerUnavailable, NotAllowed


class Logger:
    """A fake logger. It waits for ``proceed``, and then accepts the chunks or raises ``error``."""

    def __init__(self) -> None:
        self.received = []
        self.error = None
        self.proceed = threading.Event()
        self.proceed.set()
        self.called = threading.Event()

    def send(self, chunks):
        self.called.set()
        self.proceed.wait(20)
        if self.error:
            raise self.error
        self.received += [chunk.data for chunk in chunks]


@pytest.fixture
def logger():
    return Logger()


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool")


@pytest.fixture
def sender(spool, logger):
    """Yield a running sender of the spool. After the test, the logger refuses chunks to stop it."""
    sender = LogSender(spool, lambda: logger.send)
    sender.start()
    yield sender
    logger.error = NotAllowed("the test is over")
    logger.proceed.set()
    spool.close()
    sender._thread.join(10)


def finish(spool, sender):
    """Close the spool and finish the sender. Return (number of lost lines, duration in seconds)."""
    start_s = time.monotonic()
    spool.close()
    lost_lines = sender.finish()
    return lost_lines, time.monotonic() - start_s


def test_lines_are_sent_in_order(spool, sender, logger):
    for number in range(100):
        spool.put(b"%d" % number, Stream.STDOUT)

    lost_lines, _ = finish(spool, sender)
    assert lost_lines == 0
    assert logger.received == [b"%d" % number for number in range(100)]


def test_chunk_is_sent_again_after_a_failure_of_the_logger(spool, sender, logger):
    logger.error = LoggerUnavailable("away")
    spool.put(b"one", Stream.STDOUT)
    assert logger.called.wait(10)
    logger.error = None
    spool.put(b"two", Stream.STDOUT)

    lost_lines, _ = finish(spool, sender)
    assert lost_lines == 0
    assert logger.received == [b"one", b"two"]


def test_sender_waits_briefly_for_an_unreachable_logger(spool, sender, logger):
    logger.error = LoggerUnavailable("away")
    spool.put(b"one\ntwo", Stream.STDOUT)
    spool.put(b"three", Stream.STDOUT)
    assert logger.called.wait(10)

    lost_lines, duration_s = finish(spool, sender)

    assert lost_lines == 3
    assert duration_s < 1


def test_sender_waits_briefly_for_a_hanging_logger(spool, sender, logger, monkeypatch):
    monkeypatch.setattr(stream, "UNREACHABLE_AFTER_S", 0.1)
    logger.proceed.clear()
    spool.put(b"one", Stream.STDOUT)
    assert logger.called.wait(10)

    lost_lines, duration_s = finish(spool, sender)

    assert lost_lines == 1
    assert duration_s < 1


def test_nothing_is_sent_after_a_refusal(spool, sender, logger):
    logger.error = NotAllowed("no")
    spool.put(b"one", Stream.STDOUT)
    assert logger.called.wait(10)
    logger.called.clear()
    sender._thread.join(10)
    spool.put(b"two", Stream.STDOUT)

    lost_lines, _ = finish(spool, sender)
    assert lost_lines == 2
    assert not logger.called.is_set()


def test_sender_that_cannot_connect_reports_all_lines_as_lost(spool):
    def connect():
        raise ConfigError("no address")

    sender = LogSender(spool, connect)
    sender.start()
    spool.put(b"one", Stream.STDOUT)

    lost_lines, _ = finish(spool, sender)
    assert lost_lines == 1


def take_lines(spool):
    """Take all chunks from the spool, and return their lines as pairs (stream, line)."""
    lines = []
    chunks = spool.take()
    while chunks:
        for chunk in chunks:
            lines += [(chunk.stream, line) for line in chunk.data.split(b"\n")]
        spool.confirm()
        chunks = spool.take()
    return lines


class TestPump:
    @pytest.fixture
    def pumping(self, spool):
        """Start a pump with a stdout and a stderr pipe.

        Yields:
            The writing ends of both pipes, a function that returns the next copied bytes, and a
            function that closes the pipes and returns the rest of the copy and all stored lines.
        """
        out_reader, out_writer = os.pipe()
        err_reader, err_writer = os.pipe()
        copy_reader, copy_writer = os.pipe()
        sources = {out_reader: Stream.STDOUT, err_reader: Stream.STDERR}
        thread = threading.Thread(target=pump, args=(sources, copy_writer, spool))
        thread.start()

        def read_copy():
            return os.read(copy_reader, 65536)

        def end():
            os.close(out_writer)
            os.close(err_writer)
            thread.join(10)
            os.close(copy_writer)
            rest_of_copy = b"".join(iter(read_copy, b""))
            return rest_of_copy, take_lines(spool)

        yield out_writer, err_writer, read_copy, end
        for fd in (out_reader, err_reader, copy_reader):
            os.close(fd)

    @pytest.mark.parametrize(
        ("chunks", "lines"),
        [
            ([], []),
            ([b"one\n"], [b"one"]),
            ([b"one\n\n", b"two\nthr", b"ee"], [b"one", b"", b"two", b"three"]),
            ([b"no end"], [b"no end"]),
        ],
    )
    def test_output_is_stored_in_whole_lines(self, pumping, chunks, lines):
        out_writer, _, _, end = pumping
        for chunk in chunks:
            os.write(out_writer, chunk)

        copy, stored_lines = end()

        assert stored_lines == [(Stream.STDOUT, line) for line in lines]
        assert copy == b"".join(chunks)

    def test_lines_of_two_streams_do_not_mix(self, pumping):
        out_writer, err_writer, read_copy, end = pumping
        # The pump copies only whole lines.
        for writer, text, copied_text in [
            (out_writer, b"one\n", b"one\n"),
            (err_writer, b"two\nhal", b"two\n"),
            (out_writer, b"three\n", b"three\n"),
            (err_writer, b"f\nend", b"half\n"),
            (out_writer, b"4\n", b"4\n"),
        ]:
            os.write(writer, text)
            assert read_copy() == copied_text

        # The rest of the copy, and the lines in the spool.
        assert end() == (b"end", [
            (Stream.STDOUT, b"one"), (Stream.STDERR, b"two"), (Stream.STDOUT, b"three"),
            (Stream.STDERR, b"half"),
            (Stream.STDOUT, b"4"), (Stream.STDERR, b"end"),
        ])  # fmt: skip

    def test_stdout_can_end_before_stderr(self, spool):
        out_reader, out_writer = os.pipe()
        err_reader, err_writer = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        sources = {out_reader: Stream.STDOUT, err_reader: Stream.STDERR}
        thread = threading.Thread(target=pump, args=(sources, null, spool))
        thread.start()
        os.close(out_writer)
        os.write(err_writer, b"later\n")

        (chunk,) = spool.take()
        assert chunk.stream is Stream.STDERR
        assert chunk.data == b"later"
        os.close(err_writer)
        thread.join(10)
        for fd in (out_reader, err_reader, null):
            os.close(fd)

    def test_messages_of_the_grid_end_with_the_output(self, spool):
        """A process that keeps the pipe of the messages open does not delay the end of the job."""
        out_reader, out_writer = os.pipe()
        grid_reader, grid_writer = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        os.write(out_writer, b"output")
        os.write(grid_writer, b"first\nlast\n")
        os.close(out_writer)

        pump({out_reader: Stream.STDOUT, grid_reader: Stream.GRID}, null, spool)

        assert take_lines(spool) == [
            (Stream.GRID, b"first"),
            (Stream.GRID, b"last"),
            (Stream.STDOUT, b"output"),
        ]
        for fd in (out_reader, grid_reader, grid_writer, null):
            os.close(fd)

    def test_messages_of_the_grid_can_end_before_the_output(self, spool):
        out_reader, out_writer = os.pipe()
        grid_reader, grid_writer = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        sources = {out_reader: Stream.STDOUT, grid_reader: Stream.GRID}
        thread = threading.Thread(target=pump, args=(sources, null, spool))
        thread.start()
        os.close(grid_writer)
        os.write(out_writer, b"later\n")

        (chunk,) = spool.take()
        assert chunk.data == b"later"
        os.close(out_writer)
        thread.join(10)
        assert not thread.is_alive()
        for fd in (out_reader, grid_reader, null):
            os.close(fd)

    def test_very_long_line_is_split_and_nothing_is_lost(self, spool, tmp_path):
        reader, writer = os.pipe()
        data = b"x" * 300_000
        copy = tmp_path / "copy"
        with copy.open("wb") as file:
            thread = threading.Thread(
                target=pump, args=({reader: Stream.STDOUT}, file.fileno(), spool)
            )
            thread.start()
            os.write(writer, data)
            os.close(writer)
            thread.join(10)
        os.close(reader)

        parts = [chunk.data for chunk in spool.take()]
        assert b"".join(parts) == data
        assert copy.read_bytes() == data
        # The pump splits a line of MAX_LINE_BYTES or more. One read adds at most READ_BYTES.
        assert max(map(len, parts)) < MAX_LINE_BYTES + READ_BYTES

    def test_lines_are_stored_even_if_the_copy_fails(self, spool):
        reader, writer = os.pipe()
        full_file = os.open("/dev/full", os.O_WRONLY)  # each write fails
        os.write(writer, b"one\n")
        os.close(writer)

        pump({reader: Stream.STDOUT}, full_file, spool)

        assert [chunk.data for chunk in spool.take()] == [b"one"]
        os.close(reader)
        os.close(full_file)
