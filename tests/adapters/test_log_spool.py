# SPDX-License-Identifier: Apache-2.0
"""The queue of output on disk: nothing lost while there is room, every gap told, and it survives
its process.
"""

from __future__ import annotations

import os

import pytest

from gridstead.adapters import log_spool
from gridstead.adapters.log_spool import Spool
from gridstead.domain.log import Stream


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "spool"


@pytest.fixture
def small_segments(monkeypatch):
    monkeypatch.setattr(log_spool, "SEGMENT_BYTES", 100)


def drain(spool):
    """What is taken until nothing waits, as (number, data)."""
    found = []
    spool.close()
    while chunks := spool.take():
        found += [(chunk.sequence, chunk.data) for chunk in chunks]
        spool.done()
    return found


@pytest.mark.usefixtures("small_segments")
def test_chunks_come_in_order_and_their_segments_go(folder):
    spool = Spool(folder)
    for number in range(1, 50):
        spool.put(b"%d" % number * 10, Stream.STDERR)
        if number % 7 == 0:
            assert spool.take()[0].stream is Stream.STDERR
            spool.done()

    rest = drain(spool)

    assert rest[-1] == (49, b"49" * 10)
    assert spool.waiting() == 0
    assert len(list(folder.glob("*.chunks"))) == 1


def test_what_was_taken_comes_again_until_it_is_done(folder):
    spool = Spool(folder)
    spool.put(b"one", Stream.STDOUT)

    assert spool.take() == spool.take()
    spool.done()
    assert drain(spool) == []


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("cut", [0, 1, 22, 30])
def test_next_process_goes_on_with_what_was_not_done(folder, cut):
    first = Spool(folder)
    for number in range(1, 21):
        first.put(b"%d" % number * 10, Stream.STDOUT)
    first.take()
    first.done()
    last = max(folder.glob("*.chunks"))
    if cut < last.stat().st_size:
        os.truncate(last, last.stat().st_size - cut)

    again = Spool(folder)
    again.put(b"after", Stream.STDOUT)
    found = drain(again)

    numbers = [number for number, _ in found]
    assert numbers == sorted(set(numbers))
    assert found[-1][1] == b"after"
    assert {chunk for chunk in found if chunk[1] != b"after"} <= {
        (n, b"%d" % n * 10) for n in range(1, 21)
    }
    assert again._writer == first._writer


def test_full_spool_drops_and_tells_how_many_lines_are_missing_there(folder):
    spool = Spool(folder, max_bytes=150)
    spool.put(b"x" * 100, Stream.STDOUT)
    spool.put(b"lost" * 20, Stream.STDOUT)
    spool.put(b"lost\nlost" * 10, Stream.STDOUT)
    assert spool.waiting() == 1 + 1 + 11
    spool._max_bytes = 1000
    spool.put(b"after", Stream.STDOUT)

    assert [data for _, data in drain(spool)] == [
        b"x" * 100, b"gridstead: 12 lines are missing here: the logger was away or too slow",
        b"after",
    ]  # fmt: skip


def test_gap_at_the_end_is_told_too(folder):
    spool = Spool(folder, max_bytes=150)
    spool.put(b"x" * 100, Stream.STDOUT)
    spool.put(b"y" * 50, Stream.STDOUT)
    spool._max_bytes = 1000

    assert drain(spool)[1][1].startswith(b"gridstead: 1 lines")


@pytest.mark.parametrize("written", [-1, 5])
def test_disk_that_is_full_is_a_gap(folder, monkeypatch, written):
    spool = Spool(folder)
    spool.put(b"one", Stream.STDOUT)

    def fail(fd, data):
        if written < 0:
            raise OSError(28, "no space")
        return real(fd, data[:written])

    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        spool.put(b"two", Stream.STDOUT)
    spool.put(b"three", Stream.STDOUT)

    assert [data[:11] for _, data in drain(spool)] == [b"one", b"gridstead: ", b"three"]
