# SPDX-License-Identifier: Apache-2.0
"""Output on its way to the logger: never in the job's way, nothing lost while there is room, every gap told."""

from __future__ import annotations

import os
import threading
import time

import pytest

from gridstead.adapters import log_stream
from gridstead.adapters.log_stream import BLOCK_BYTES, MAX_LINE_BYTES, Buffer, Sender, pump
from gridstead.errors import ConfigError, LoggerUnavailable, NotAllowed


class Logger:
    """Takes blocks, or is away, or refuses; ``stuck`` makes it hang."""

    def __init__(self) -> None:
        self.got = []
        self.error = None
        self.stuck = threading.Event()
        self.stuck.set()
        self.asked = threading.Event()

    def send(self, blocks):
        self.asked.set()
        self.stuck.wait(20)
        if self.error:
            raise self.error
        self.got += [data for data, _ in blocks]


@pytest.fixture
def logger():
    return Logger()


@pytest.fixture
def buffer():
    return Buffer()


@pytest.fixture
def sender(buffer, logger):
    sender = Sender(buffer, lambda: logger.send)
    sender.start()
    yield sender
    logger.error = NotAllowed("the test is over")
    logger.stuck.set()
    buffer.close()
    sender._thread.join(10)


def end(buffer, sender):
    """Close and finish; return (lines not sent, seconds)."""
    started = time.monotonic()
    buffer.close()
    return sender.finish(), time.monotonic() - started


def test_all_is_sent_in_order(buffer, sender, logger):
    for number in range(100):
        buffer.put(b"%d" % number)

    assert end(buffer, sender)[0] == 0
    assert logger.got == [b"%d" % number for number in range(100)]


def test_what_was_not_taken_is_sent_again(buffer, sender, logger):
    logger.error = LoggerUnavailable("away")
    buffer.put(b"one")
    assert logger.asked.wait(10)
    logger.error = None
    buffer.put(b"two")

    assert end(buffer, sender)[0] == 0
    assert logger.got == [b"one", b"two"]


def test_logger_that_is_away_is_not_waited_for_long(buffer, sender, logger):
    logger.error = LoggerUnavailable("away")
    buffer.put(b"one\ntwo")
    buffer.put(b"three")
    assert logger.asked.wait(10)

    lost, duration_s = end(buffer, sender)

    assert lost == 3
    assert duration_s < 1


def test_logger_that_hangs_is_not_waited_for_long(buffer, sender, logger, monkeypatch):
    monkeypatch.setattr(log_stream, "SLOW_S", 0.1)
    logger.stuck.clear()
    buffer.put(b"one")
    assert logger.asked.wait(10)

    lost, duration_s = end(buffer, sender)

    assert lost == 1
    assert duration_s < 1


def test_logger_that_refuses_is_not_asked_again(buffer, sender, logger):
    logger.error = NotAllowed("no")
    buffer.put(b"one")
    assert logger.asked.wait(10)
    logger.asked.clear()
    sender._thread.join(10)
    buffer.put(b"two")

    assert end(buffer, sender)[0] == 2
    assert not logger.asked.is_set()


def test_sender_that_cannot_start_loses_what_there_is(buffer):
    def connect():
        raise ConfigError("no address")

    sender = Sender(buffer, connect)
    sender.start()
    buffer.put(b"one")

    assert end(buffer, sender)[0] == 1


def test_full_buffer_drops_and_tells_how_many_lines_are_missing_there():
    buffer = Buffer(max_bytes=2 * (BLOCK_BYTES + 10))
    buffer.put(b"0123456789")
    buffer.put(b"0123456789")
    buffer.put(b"lost")
    buffer.put(b"lost\nlost")
    buffer.take()
    buffer.put(b"after")
    buffer.close()

    blocks = [data for data, _ in buffer.take()]

    assert blocks == [b"gridstead: 3 lines are missing here: the logger was away or too slow", b"after"]
    assert buffer.take() == []


def test_gap_at_the_end_is_told_too():
    buffer = Buffer(max_bytes=BLOCK_BYTES + 1)
    buffer.put(b"x")
    buffer.put(b"y")
    buffer.close()

    assert [data for data, _ in buffer.take()][1].startswith(b"gridstead: 1 lines")


def test_empty_lines_fill_the_buffer_too():
    buffer = Buffer(max_bytes=10 * BLOCK_BYTES)
    for _ in range(100):
        buffer.put(b"")

    assert buffer.waiting() == 10


class TestPump:
    def lines(self, *chunks):
        source, into = os.pipe()
        buffer = Buffer()
        null = os.open(os.devnull, os.O_WRONLY)
        thread = threading.Thread(target=pump, args=(source, null, buffer))
        thread.start()
        for chunk in chunks:
            os.write(into, chunk)
        os.close(into)
        thread.join(10)
        os.close(source)
        os.close(null)
        found = []
        while blocks := buffer.take():
            found += [line for data, _ in blocks for line in data.split(b"\n")]
        return found

    @pytest.mark.parametrize(
        ("chunks", "lines"),
        [
            ([], []),
            ([b"one\n"], [b"one"]),
            ([b"one\n\n", b"two\nthr", b"ee"], [b"one", b"", b"two", b"three"]),
            ([b"no end"], [b"no end"]),
        ],
    )
    def test_lines_come_whole(self, chunks, lines):
        assert self.lines(*chunks) == lines

    def test_line_without_an_end_is_cut_and_nothing_is_lost(self):
        found = self.lines(*[b"x" * 10_000] * 30)

        assert b"".join(found) == b"x" * 300_000
        assert max(map(len, found)) < 2 * MAX_LINE_BYTES

    def test_copy_that_fails_stops_only_the_copy(self):
        source, into = os.pipe()
        full = os.open("/dev/full", os.O_WRONLY)
        os.write(into, b"one\n")
        os.close(into)
        buffer = Buffer()

        pump(source, full, buffer)

        assert [data for data, _ in buffer.take()] == [b"one"]
        os.close(source)
        os.close(full)
