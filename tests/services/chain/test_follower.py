# SPDX-License-Identifier: Apache-2.0
"""The follower delivers each event at least once, even after a crash, a reorg or a new chain."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from tests.fakes.ledger import FakeLedger
from tests.fakes.store import MemoryCursor

from gridstead.domain.chain.events import ChainEventKind
from gridstead.errors import ChainUnavailable
from gridstead.services.chain.follower import STATE_KEPT_BLOCKS, Follower

CUSTOMER = "0x" + "c1" * 20


@pytest.fixture
def ledger():
    return FakeLedger()


@pytest.fixture
def cursor():
    return MemoryCursor()


def requested_numbers(events):
    """Return the numbers of the jobs that the events report as requested."""
    return [event.job_id.number for event in events if event.kind is ChainEventKind.JOB_REQUESTED]


class Consumer:
    """Stores the numbers of the requested jobs.

    Attributes:
        calls: For each call of the consumer, the list of the numbers that it received.
        numbers: The numbers of all calls in one list.
    """

    def __init__(self):
        self.calls = []
        self.numbers = []

    def __call__(self, events):
        numbers = requested_numbers(events)
        self.calls.append(numbers)
        self.numbers += numbers


def test_all_events_are_delivered_in_order_and_once(ledger, cursor):
    consumer, follower = Consumer(), Follower(ledger, cursor)
    ledger.request(CUSTOMER)
    ledger.request(CUSTOMER)
    follower.tick(consumer)
    follower.tick(consumer)
    ledger.request(CUSTOMER)
    follower.tick(consumer)

    assert consumer.numbers == [1, 2, 3]
    assert cursor.load() == ledger.head()


def test_consumer_is_not_called_if_there_are_no_events(ledger, cursor):
    consumer = Consumer()
    ledger.mine(5)
    Follower(ledger, cursor).tick(consumer)

    assert consumer.calls == []
    assert cursor.load() == ledger.head()


def test_reading_continues_where_an_earlier_process_stopped(ledger, cursor):
    ledger.request(CUSTOMER)
    Follower(ledger, cursor).tick(Consumer())
    ledger.request(CUSTOMER)
    consumer = Consumer()
    Follower(ledger, cursor).tick(consumer)

    assert consumer.numbers == [2]


def test_blocks_are_read_in_bounded_ranges(ledger, cursor):
    for _ in range(5):
        ledger.request(CUSTOMER)
    consumer = Consumer()
    Follower(ledger, cursor, blocks_per_read=2).tick(consumer)

    assert consumer.calls == [[1], [2, 3], [4, 5]]


def test_events_before_the_start_block_are_not_delivered(ledger, cursor):
    ledger.request(CUSTOMER)
    ledger.request(CUSTOMER)
    consumer = Consumer()
    Follower(ledger, cursor, first_block=2).tick(consumer)

    assert consumer.numbers == [2]


def test_events_are_delivered_again_if_the_consumer_crashed(ledger, cursor):
    ledger.request(CUSTOMER)

    def crash(_events):
        raise KeyError("the process crashes here")

    with pytest.raises(KeyError):
        Follower(ledger, cursor).tick(crash)

    consumer = Consumer()
    Follower(ledger, cursor).tick(consumer)
    assert consumer.numbers == [1]


@pytest.mark.parametrize("length", [1, 3, 5])
def test_reorg_is_read_from_the_common_ancestor(ledger, cursor, length):
    """The new fork may be shorter than the old fork, as long as the old fork, or longer."""
    consumer, follower = Consumer(), Follower(ledger, cursor)
    for _ in range(4):
        ledger.request(CUSTOMER)
        follower.tick(consumer)
    ledger.reorg(3, length=length)
    follower.tick(consumer)
    assert consumer.numbers == [1, 2, 3, 4]

    ledger.request(CUSTOMER)
    follower.tick(consumer)

    # The reorg removed jobs 2 to 4, so the next job has number 2.
    assert consumer.numbers == [1, 2, 3, 4, 2]
    assert cursor.load() == ledger.head()


def test_reorg_between_two_processes_is_detected(ledger, cursor):
    for _ in range(4):
        ledger.request(CUSTOMER)
        Follower(ledger, cursor).tick(Consumer())
    ledger.reorg(2)
    ledger.request(CUSTOMER)
    ledger.request(CUSTOMER)
    consumer = Consumer()
    Follower(ledger, cursor).tick(consumer)

    assert consumer.numbers == [3, 4]


@pytest.mark.parametrize(
    ("depth", "delivered_numbers"),
    [
        pytest.param(2, [5, 6], id="as deep"),
        pytest.param(3, [1, 2, 3, 4, 5, 6], id="deeper"),
    ],
)
def test_all_events_are_read_again_after_a_reorg_deeper_than_the_confirmations(
    ledger, cursor, depth, delivered_numbers
):
    """Such a reorg may have reverted the end of a job that the consumer has forgotten."""
    follower = Follower(ledger, cursor, confirmations=2)
    for _ in range(4):
        ledger.request(CUSTOMER)
        follower.tick(Consumer())
    for _ in range(3):
        ledger.mine()
        follower.tick(Consumer())
    ledger.reorg(depth)
    ledger.request(CUSTOMER)
    ledger.request(CUSTOMER)
    consumer = Consumer()
    follower.tick(consumer)
    follower.tick(consumer)

    assert consumer.numbers == delivered_numbers


@pytest.mark.parametrize(("server_head", "is_refused"), [(2, True), (4, False)])
def test_no_event_is_read_again_if_a_server_lags(
    ledger, cursor, monkeypatch, server_head, is_refused
):
    consumer, follower = Consumer(), Follower(ledger, cursor, confirmations=2)
    for _ in range(6):
        ledger.request(CUSTOMER)
        follower.tick(consumer)
    with monkeypatch.context() as patch:
        # During one tick, the answers come from a server of the endpoint that lags behind.
        patch.setattr(ledger, "head", lambda: ledger.block(server_head))
        # After a longer lag, the consumer could not know which older events are delivered again.
        with pytest.raises(ChainUnavailable) if is_refused else nullcontext():
            follower.tick(consumer)
    follower.tick(consumer)

    assert consumer.numbers == [1, 2, 3, 4, 5, 6]


def test_final_events_are_not_read_again_after_a_shallow_reorg(ledger, cursor):
    ledger.request(CUSTOMER)
    ledger.mine(20)
    follower = Follower(ledger, cursor, confirmations=2)
    follower.tick(Consumer())
    ledger.reorg(1)
    ledger.request(CUSTOMER)
    consumer = Consumer()
    follower.tick(consumer)

    assert consumer.numbers == [2]


def test_reorg_inside_a_range_delivers_the_surviving_events_of_the_range_again(ledger, cursor):
    ledger.request(CUSTOMER)
    follower = Follower(ledger, cursor)
    follower.tick(Consumer())
    ledger.request(CUSTOMER)
    ledger.request(CUSTOMER)
    follower.tick(Consumer())
    ledger.reorg(1)
    consumer = Consumer()
    follower.tick(consumer)

    assert consumer.numbers == [2]


def test_new_chain_is_read_from_its_start(ledger, cursor):
    for _ in range(3):
        ledger.request(CUSTOMER)
    Follower(ledger, cursor).tick(Consumer())
    new_ledger = FakeLedger()
    new_ledger._reorg_count = 9  # so that the block hashes differ from those of the old chain
    new_ledger._history.clear()
    new_ledger.mine()
    new_ledger.request(CUSTOMER)
    consumer = Consumer()
    Follower(new_ledger, cursor).tick(consumer)

    assert consumer.numbers == [1]
    assert cursor.history() == (new_ledger.head(),)


def test_no_event_is_lost_if_the_endpoint_is_down(ledger, cursor):
    ledger.request(CUSTOMER)
    ledger.down = True
    consumer, follower = Consumer(), Follower(ledger, cursor)
    with pytest.raises(ChainUnavailable):
        follower.tick(consumer)
    ledger.down = False
    follower.tick(consumer)

    assert consumer.numbers == [1]


@pytest.mark.parametrize("length", [1, 2])
def test_reorg_during_a_tick_is_read_by_the_next_tick(ledger, cursor, length):
    ledger.mine(3)
    ledger.request(CUSTOMER)
    read_events = ledger.events

    # A reorg happens after the first read of events.
    def read_events_before_a_reorg(*, first, end):
        events = read_events(first=first, end=end)
        ledger.events = read_events
        ledger.reorg(2, length=length)
        return events

    ledger.events = read_events_before_a_reorg
    consumer, follower = Consumer(), Follower(ledger, cursor)
    with pytest.raises(ChainUnavailable):
        follower.tick(consumer)
    follower.tick(consumer)

    # The reorg has removed the block of the request.
    assert consumer.calls == []
    assert cursor.load() == ledger.head()


def test_events_of_a_range_are_delivered_with_the_last_block_of_the_range(ledger, cursor):
    ledger.request(CUSTOMER)
    ledger.mine(4)
    ledger.request(CUSTOMER)
    deliveries = []

    def record(events, block):
        deliveries.append((requested_numbers(events), block))

    Follower(ledger, cursor, blocks_per_read=3).follow(record)

    assert deliveries == [([1], ledger.block(2)), ([2], ledger.head())]


def test_an_old_range_is_delivered_with_a_recent_block_because_nodes_prune_states(ledger, cursor):
    """A pruning node keeps only the states of the last blocks."""
    ledger.request(CUSTOMER)
    head = ledger.mine(100)
    deliveries = []

    def record(events, block):
        deliveries.append((requested_numbers(events), block))

    Follower(ledger, cursor, blocks_per_read=3).follow(record)

    assert deliveries == [([1], ledger.block(head.number - STATE_KEPT_BLOCKS))]
