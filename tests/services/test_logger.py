# SPDX-License-Identifier: Apache-2.0
"""The logger: who writes, who reads, what is kept. What the wire makes of it is tested in tests/adapters/rpc."""

from __future__ import annotations

import pytest
from tests.fakes.definitions import MemoryLogs, Wallet
from tests.fakes.store import FakeClock

from gridstead.adapters.chain.wallet import recover
from gridstead.domain.log_access import MAX_AGE_S, read_text, watch_text, write_token
from gridstead.errors import ConfigError, InvalidInput, LogFull, NotAllowed
from gridstead.services.logger import MAX_LINE_BYTES, Logger

KEY = b"k" * 32
NAME = "0x" + "07" * 32


@pytest.fixture
def logs():
    return MemoryLogs()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def service(logs, clock):
    return Logger(sink=logs, key=KEY, clock=clock, recover=recover)


@pytest.fixture
def owner():
    return Wallet()


def test_short_key_is_the_operators(logs, clock):
    with pytest.raises(ConfigError):
        Logger(sink=logs, key=b"short", clock=clock, recover=recover)


def test_token_opens_its_own_log_only(service, owner):
    token = write_token(KEY, owner.address, NAME)

    service.authorize_write(token, owner.address, NAME)

    for other in ("0x" + "01" * 20, NAME + "0"), (owner.address, NAME + "0"), ("0x" + "01" * 20, NAME):
        with pytest.raises(NotAllowed):
            service.authorize_write(token, *other)
    with pytest.raises(NotAllowed):
        service.authorize_write(write_token(b"j" * 32, owner.address, NAME), owner.address, NAME)
    with pytest.raises(NotAllowed):
        service.authorize_write("é", owner.address, NAME)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "-x", "x" * 129, "é"])
def test_name_that_is_no_log_name_is_refused(service, owner, name):
    with pytest.raises(InvalidInput):
        service.authorize_write("t", owner.address, name)
    with pytest.raises(InvalidInput):
        service.authorize_read(owner.address, name, 0, b"")


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one", [b"one"]),
        (b"one\n", [b"one"]),
        (b"one\r\n", [b"one"]),
        (b"", [b""]),
        (b"\n", [b""]),
        (b"one\n\ntwo\r\nthree", [b"one", b"", b"two", b"three"]),
        (b"a\rb", [b"a\rb"]),
        (b"x" * (MAX_LINE_BYTES + 1), [b"x" * MAX_LINE_BYTES, b"x"]),
    ],
)
def test_message_is_kept_as_lines(service, logs, owner, data, lines):
    logs.max_bytes = 10**9
    service.write(owner.address, NAME, data, 7)

    assert [(line, at) for _, line, at in service.read(owner.address, NAME, 0)] == [(line, 7) for line in lines]


def test_written_lines_are_durable_after_finish(service, logs, owner):
    service.write(owner.address, NAME, b"one\ntwo", 1)
    assert not logs.synced

    service.finish(owner.address, NAME)

    assert logs.synced == {(owner.address, NAME): 2}


def test_full_log_is_told(service, logs, owner):
    logs.max_bytes = 3

    with pytest.raises(LogFull):
        service.write(owner.address, NAME, b"four", 1)


@pytest.mark.parametrize("factor", [1, 1000])
@pytest.mark.parametrize(
    ("age_s", "is_good"), [(0, True), (MAX_AGE_S, True), (-MAX_AGE_S, True), (301, False), (-301, False)]
)
def test_signature_is_good_for_minutes_in_seconds_and_milliseconds(service, owner, clock, factor, age_s, is_good):
    timestamp = (clock.now() - age_s) * factor
    read = owner.sign(read_text(owner.address, NAME, timestamp).encode())
    watch = owner.sign(watch_text(owner.address, timestamp).encode())

    if is_good:
        assert service.authorize_read(owner.address, NAME, timestamp, read) == (owner.address, NAME)
        assert service.authorize_watch(owner.address, timestamp, watch) == owner.address
    else:
        with pytest.raises(NotAllowed):
            service.authorize_read(owner.address, NAME, timestamp, read)
        with pytest.raises(NotAllowed):
            service.authorize_watch(owner.address, timestamp, watch)


def test_owner_is_read_in_any_case(service, owner, clock):
    signature = owner.sign(read_text(owner.address, NAME, clock.now()).encode())

    assert service.authorize_read(owner.account.address, NAME, clock.now(), signature) == (owner.address, NAME)


def test_wallet_cannot_read_what_is_anothers(service, owner, clock):
    thief = Wallet()

    for signer, address in ((thief, owner.address), (owner, thief.address)):
        signature = signer.sign(read_text(address, NAME, clock.now()).encode())
        with pytest.raises(NotAllowed):
            service.authorize_read(address, NAME, clock.now(), signature)


def test_names_are_the_owners(service, owner):
    service.write(owner.address, "b", b"x", 1)
    service.write(owner.address, "a", b"x", 1)
    service.write(Wallet().address, "c", b"x", 1)

    assert service.names(owner.address) == ("a", "b")
