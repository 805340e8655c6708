# SPDX-License-Identifier: Apache-2.0
"""The sender of output to the logger: it never blocks the job and sends all lines in order."""

from __future__ import annotations

import os
import threading
import time

import pytest

from gridstead.adapters.logs import stream
from gridstead.adapters.logs.spool import Spool
from gridstead.adapters.logs.stream import MAX_LINE_BYTES, LogSender, pump
from gridstead.domain.logs.log import Stream
from gridstead.errors import ConfigError, LoggerUnavailable, NotAllowed


class Logger:
    """A fake logger that accepts chunks or raises ``error``. It hangs until ``proceed`` is set."""

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
    sender = LogSender(spool, lambda: logger.send)
    sender.start()
    yield sender
    logger.error = NotAllowed("the test is over")
    logger.proceed.set()
    spool.close()
    sender._thread.join(10)


def end(spool, sender):
    """Close the spool, finish the sender, and return (lines not sent, seconds)."""
    started = time.monotonic()
    spool.close()
    return sender.finish(), time.monotonic() - started


def test_all_is_sent_in_order(spool, sender, logger):
    for number in range(100):
        spool.put(b"%d" % number, Stream.STDOUT)

    assert end(spool, sender)[0] == 0
    assert logger.received == [b"%d" % number for number in range(100)]


def test_unaccepted_chunk_is_sent_again(spool, sender, logger):
    logger.error = LoggerUnavailable("away")
    spool.put(b"one", Stream.STDOUT)
    assert logger.called.wait(10)
    logger.error = None
    spool.put(b"two", Stream.STDOUT)

    assert end(spool, sender)[0] == 0
    assert logger.received == [b"one", b"two"]


def test_wait_for_an_unreachable_logger_is_short(spool, sender, logger):
    logger.error = LoggerUnavailable("away")
    spool.put(b"one\ntwo", Stream.STDOUT)
    spool.put(b"three", Stream.STDOUT)
    assert logger.called.wait(10)

    lost, duration_s = end(spool, sender)

    assert lost == 3
    assert duration_s < 1


def test_wait_for_a_hanging_logger_is_short(spool, sender, logger, monkeypatch):
    monkeypatch.setattr(stream, "SLOW_S", 0.1)
    logger.proceed.clear()
    spool.put(b"one", Stream.STDOUT)
    assert logger.called.wait(10)

    lost, duration_s = end(spool, sender)

    assert lost == 1
    assert duration_s < 1


def test_nothing_is_sent_after_a_refusal(spool, sender, logger):
    logger.error = NotAllowed("no")
    spool.put(b"one", Stream.STDOUT)
    assert logger.called.wait(10)
    logger.called.clear()
    sender._thread.join(10)
    spool.put(b"two", Stream.STDOUT)

    assert end(spool, sender)[0] == 2
    assert not logger.called.is_set()


def test_sender_that_cannot_connect_reports_all_lines_as_lost(spool):
    def connect():
        raise ConfigError("no address")

    sender = LogSender(spool, connect)
    sender.start()
    spool.put(b"one", Stream.STDOUT)

    assert end(spool, sender)[0] == 1


class TestPump:
    @pytest.fixture
    def pumping(self, spool):
        """Start a pump with a stdout and a stderr pipe.

        Yields:
            The writing ends of both pipes, a function that returns the next copied bytes, and a
            function that closes the pipes and returns the rest of the copy and all stored lines.
        """
        (out, into_out), (err, into_err), (copied, copy) = os.pipe(), os.pipe(), os.pipe()
        sources = {out: Stream.STDOUT, err: Stream.STDERR}
        thread = threading.Thread(target=pump, args=(sources, copy, spool))
        thread.start()

        def end():
            os.close(into_out)
            os.close(into_err)
            thread.join(10)
            os.close(copy)
            stored = []
            chunks = spool.take()
            while chunks:
                for chunk in chunks:
                    stored += [(chunk.stream, line) for line in chunk.data.split(b"\n")]
                spool.done()
                chunks = spool.take()
            return b"".join(iter(lambda: os.read(copied, 65536), b"")), stored

        yield into_out, into_err, lambda: os.read(copied, 65536), end
        for fd in (out, err, copied):
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
    def test_lines_are_stored_whole(self, pumping, chunks, lines):
        into, _, _, end = pumping
        for chunk in chunks:
            os.write(into, chunk)

        copied, stored = end()

        assert stored == [(Stream.STDOUT, line) for line in lines]
        assert copied == b"".join(chunks)

    def test_lines_of_two_streams_do_not_mix(self, pumping):
        out, err, copied, end = pumping
        for into, text, lines in [
            (out, b"one\n", b"one\n"), (err, b"two\nhal", b"two\n"), (out, b"three\n", b"three\n"),
            (err, b"f\nend", b"half\n"), (out, b"4\n", b"4\n"),
        ]:  # fmt: skip
            os.write(into, text)
            assert copied() == lines

        assert end() == (b"end", [
            (Stream.STDOUT, b"one"), (Stream.STDERR, b"two"), (Stream.STDOUT, b"three"),
            (Stream.STDERR, b"half"),
            (Stream.STDOUT, b"4"), (Stream.STDERR, b"end"),
        ])  # fmt: skip

    def test_one_stream_can_end_before_the_other(self, spool):
        (out, into_out), (err, into_err), null = (
            os.pipe(),
            os.pipe(),
            os.open(os.devnull, os.O_WRONLY),
        )
        thread = threading.Thread(
            target=pump, args=({out: Stream.STDOUT, err: Stream.STDERR}, null, spool)
        )
        thread.start()
        os.close(into_out)
        os.write(into_err, b"later\n")

        assert [(chunk.stream, chunk.data) for chunk in spool.take()] == [(Stream.STDERR, b"later")]
        os.close(into_err)
        thread.join(10)
        for fd in (out, err, null):
            os.close(fd)

    def test_very_long_line_is_split_and_nothing_is_lost(self, spool, tmp_path):
        (source, into), data = os.pipe(), b"x" * 300_000
        with (tmp_path / "copy").open("wb") as copy:
            thread = threading.Thread(
                target=pump, args=({source: Stream.STDOUT}, copy.fileno(), spool)
            )
            thread.start()
            os.write(into, data)
            os.close(into)
            thread.join(10)
        os.close(source)

        parts = [chunk.data for chunk in spool.take()]
        assert b"".join(parts) == (tmp_path / "copy").read_bytes() == data
        assert max(map(len, parts)) < 2 * MAX_LINE_BYTES

    def test_failed_copy_does_not_stop_the_spool(self, spool):
        source, into = os.pipe()
        full = os.open("/dev/full", os.O_WRONLY)
        os.write(into, b"one\n")
        os.close(into)

        pump({source: Stream.STDOUT}, full, spool)

        assert [chunk.data for chunk in spool.take()] == [b"one"]
        os.close(source)
        os.close(full)
