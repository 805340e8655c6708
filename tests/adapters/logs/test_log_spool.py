# SPDX-License-Identifier: Apache-2.0
"""The spool, which queues a job's output on disk: its order, dropped lines, and restarts.

The spool stores numbered chunks of lines in segment files. ``take`` returns the next chunks, and
``done`` confirms that they were sent. Where the spool dropped lines, the log has a *gap*.
"""

from __future__ import annotations

import os

import pytest

from gridstead.adapters.logs import spool as log_spool
from gridstead.adapters.logs.spool import Spool
from gridstead.domain.logs.log import Stream


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "spool"


@pytest.fixture
def small_segments(monkeypatch):
    """Make the segment files small, so that a few chunks fill one."""
    monkeypatch.setattr(log_spool, "SEGMENT_BYTES", 100)


def drain(spool):
    """Close the spool, take all waiting chunks, and return them as (sequence number, data)."""
    taken_chunks = []
    spool.close()
    chunks = spool.take()
    while chunks:
        taken_chunks += [(chunk.sequence, chunk.data) for chunk in chunks]
        spool.confirm()
        chunks = spool.take()
    return taken_chunks


@pytest.mark.usefixtures("small_segments")
def test_chunks_are_taken_in_order_and_sent_segments_are_deleted(folder):
    spool = Spool(folder)
    for number in range(1, 50):
        spool.put(b"%d" % number * 10, Stream.STDERR)
        if number % 7 == 0:
            assert spool.take()[0].stream is Stream.STDERR
            spool.confirm()

    remaining_chunks = drain(spool)

    assert remaining_chunks[-1] == (49, b"49" * 10)
    assert spool.unsent_lines() == 0
    assert len(list(folder.glob("*.chunks"))) == 1  # the segment for the next chunks


def test_take_returns_the_oldest_chunks_again_until_they_are_confirmed(folder):
    spool = Spool(folder)
    spool.put(b"one", Stream.STDOUT)

    assert spool.take() == spool.take()
    spool.confirm()
    assert drain(spool) == []


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("missing_bytes", [0, 1, 22, 30])
def test_next_process_continues_with_the_chunks_that_were_not_sent(folder, missing_bytes):
    first_spool = Spool(folder)
    for number in range(1, 21):
        first_spool.put(b"%d" % number * 10, Stream.STDOUT)
    first_spool.take()
    first_spool.confirm()
    # A killed process can leave a truncated chunk at the end of the last segment.
    last_segment = max(folder.glob("*.chunks"))
    if missing_bytes < last_segment.stat().st_size:
        os.truncate(last_segment, last_segment.stat().st_size - missing_bytes)

    second_spool = Spool(folder)
    second_spool.put(b"after", Stream.STDOUT)
    *old_chunks, (last_number, last_data) = drain(second_spool)

    assert last_data == b"after"
    for number, data in old_chunks:
        assert 1 <= number <= 20
        assert data == b"%d" % number * 10
    numbers = [number for number, _ in old_chunks] + [last_number]
    assert numbers == sorted(set(numbers))  # sorted, without duplicates
    assert second_spool._writer == first_spool._writer


def test_full_spool_drops_lines_and_reports_their_number(folder):
    spool = Spool(folder, max_bytes=150)
    spool.put(b"x" * 100, Stream.STDOUT)
    spool.put(b"lost" * 20, Stream.STDOUT)
    spool.put(b"lost\nlost" * 10, Stream.STDOUT)
    # One line waits to be sent. The spool dropped 1 + 11 lines.
    assert spool.unsent_lines() == 1 + 1 + 11
    spool._max_bytes = 1000
    spool.put(b"after", Stream.STDOUT)

    assert [data for _, data in drain(spool)] == [
        b"x" * 100,
        b"gridstead: 12 lines are missing here: the logger was away or too slow",
        b"after",
    ]


def test_gap_at_the_end_is_reported(folder):
    spool = Spool(folder, max_bytes=150)
    spool.put(b"x" * 100, Stream.STDOUT)
    spool.put(b"y" * 50, Stream.STDOUT)
    spool._max_bytes = 1000

    _, (_, data) = drain(spool)
    assert data.startswith(b"gridstead: 1 lines")


# The write fails (-1), or writes only the first five bytes.
@pytest.mark.parametrize("written_bytes", [-1, 5])
def test_full_disk_is_reported_as_a_gap(folder, monkeypatch, written_bytes):
    spool = Spool(folder)
    spool.put(b"one", Stream.STDOUT)
    real_write = os.write

    def write_partly(fd, data):
        if written_bytes < 0:
            raise OSError(28, "no space")
        return real_write(fd, data[:written_bytes])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_partly)
        spool.put(b"two", Stream.STDOUT)
    spool.put(b"three", Stream.STDOUT)

    assert [data[:11] for _, data in drain(spool)] == [b"one", b"gridstead: ", b"three"]
