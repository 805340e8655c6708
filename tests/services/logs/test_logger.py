# SPDX-License-Identifier: Apache-2.0
"""The logger service: access to logs, and the lines that it stores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.definitions import MemoryLogs, Wallet
from tests.fakes.store import FakeClock

from gridstead.adapters.chain.wallet import recover
from gridstead.domain.logs.access import (
    MAX_SIGNATURE_AGE_S,
    WritePermit,
    make_write_token,
    read_request_text,
    watch_request_text,
)
from gridstead.domain.logs.log import Chunk, LogId
from gridstead.errors import ConfigError, InvalidInput, LogFull, NotAllowed
from gridstead.services.logs.logger import Logger

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
    return Logger(store=logs, key=KEY, clock=clock, recover=recover)


@pytest.fixture
def owner():
    return Wallet()


def test_short_key_is_a_configuration_error(logs, clock):
    with pytest.raises(ConfigError):
        Logger(store=logs, key=b"short", clock=clock, recover=recover)


def log_of(owner, name=NAME, log_identity="1" * 32):
    return LogId(owner=owner, name=name, log_identity=log_identity)


@pytest.fixture
def permit(owner, clock):
    return WritePermit(log=log_of(owner.address), expires_at=clock.now() + 60)


def line(data):
    return Chunk(data=data, timestamp_ns=1)


def test_token_of_one_log_is_refused_for_another_log(service, owner, permit):
    token = make_write_token(KEY, permit)
    other_owner, other_name = "0x" + "01" * 20, NAME + "0"

    assert service.authorize_write(token, owner.address, NAME) == permit
    for address, name in (
        (other_owner, other_name),
        (owner.address, other_name),
        (other_owner, NAME),
    ):
        with pytest.raises(NotAllowed):
            service.authorize_write(token, address, name)


def test_altered_token_is_refused(service, owner, permit):
    log_identity, expires_at, mac = make_write_token(KEY, permit).split(".")
    other_log_identity, later, other_mac = "2" * 32, int(expires_at) + 1, "0" * 64
    token_of_other_key = make_write_token(b"j" * 32, permit)
    altered_tokens = [
        "",
        "é",
        mac,
        token_of_other_key,
        f"{other_log_identity}.{expires_at}.{mac}",
        f"{log_identity}.{later}.{mac}",
        f"{log_identity}.0{expires_at}.{mac}",
        f"{log_identity}.{expires_at}.{other_mac}",
    ]
    for token in altered_tokens:
        with pytest.raises(NotAllowed):
            service.authorize_write(token, owner.address, NAME)


def test_expired_token_is_refused_for_new_and_open_streams(service, owner, permit, clock):
    token = make_write_token(KEY, permit)
    service.write(service.authorize_write(token, owner.address, NAME), line(b"in time"))
    clock.advance(61)

    with pytest.raises(NotAllowed, match="expired"):
        service.authorize_write(token, owner.address, NAME)
    with pytest.raises(NotAllowed, match="expired"):
        service.write(permit, line(b"late"))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "-x", "x" * 129, "é"])
def test_malformed_log_name_is_refused(service, owner, name):
    with pytest.raises(InvalidInput):
        service.authorize_write("t", owner.address, name)
    with pytest.raises(InvalidInput):
        service.authorize_read(owner.address, name, 0, b"")


def test_written_lines_are_durable_after_finish(service, logs, permit):
    service.write(permit, line(b"one\ntwo"))
    assert not logs.synced

    service.finish(permit)

    chunk_count = 1  # The two lines were written as one chunk.
    assert logs.synced == {permit.log: chunk_count}


def test_write_to_a_full_log_is_an_error(service, logs, permit):
    logs.max_bytes = 3

    with pytest.raises(LogFull):
        service.write(permit, line(b"four"))


def test_jobs_with_the_same_number_on_two_chains_have_separate_logs(service, permit, owner):
    new_permit = replace(permit, log=log_of(owner.address, log_identity="2" * 32))
    service.write(permit, line(b"old"))
    service.write(new_permit, line(b"new"))

    # Without an identity, the newest log with the name is found.
    for log_identity, data in (("1" * 32, b"old"), ("2" * 32, b"new"), ("", b"new")):
        log = service.find(owner.address, NAME, log_identity)
        assert service.read(log, 0)[0].chunk.data == data
    assert service.find(owner.address, "another", "") is None
    with pytest.raises(InvalidInput):
        service.find(owner.address, NAME, "../" + "0" * 29)


def test_sweep_passes_the_time_to_the_store(service, logs, clock):
    service.sweep()

    assert logs.swept_at == clock.now()


@pytest.mark.parametrize("factor", [1, 1000])
@pytest.mark.parametrize(
    ("age_s", "is_accepted"),
    [
        (0, True),
        (MAX_SIGNATURE_AGE_S, True),
        (-MAX_SIGNATURE_AGE_S, True),
        (MAX_SIGNATURE_AGE_S + 1, False),
        (-MAX_SIGNATURE_AGE_S - 1, False),
    ],
)
def test_time_of_a_signed_request_may_differ_by_five_minutes(
    service, owner, clock, factor, age_s, is_accepted
):
    """The time is in seconds or, with factor 1000, in milliseconds."""
    timestamp = (clock.now() - age_s) * factor
    address = owner.address
    read_signature = owner.sign(read_request_text(address, NAME, timestamp).encode())
    watch_signature = owner.sign(watch_request_text(address, timestamp).encode())

    if is_accepted:
        assert service.authorize_read(address, NAME, timestamp, read_signature) == (address, NAME)
        assert service.authorize_watch(address, timestamp, watch_signature) == address
    else:
        with pytest.raises(NotAllowed):
            service.authorize_read(address, NAME, timestamp, read_signature)
        with pytest.raises(NotAllowed):
            service.authorize_watch(address, timestamp, watch_signature)


def test_owner_address_may_have_any_case(service, owner, clock):
    signature = owner.sign(read_request_text(owner.address, NAME, clock.now()).encode())
    mixed_case_address = owner.account.address

    assert service.authorize_read(mixed_case_address, NAME, clock.now(), signature) == (
        owner.address,
        NAME,
    )


def test_wallet_cannot_read_the_logs_of_another_wallet(service, owner, clock):
    other_wallet = Wallet()

    for signer, address in [(other_wallet, owner.address), (owner, other_wallet.address)]:
        signature = signer.sign(read_request_text(address, NAME, clock.now()).encode())
        with pytest.raises(NotAllowed):
            service.authorize_read(address, NAME, clock.now(), signature)


def test_names_of_the_owners_logs_are_returned(service, clock):
    owner, other_wallet = Wallet(), Wallet()
    for wallet, name in ((owner, "b"), (owner, "a"), (other_wallet, "c")):
        service.write(
            WritePermit(log=log_of(wallet.address, name), expires_at=clock.now()), line(b"x")
        )

    assert service.names(owner.address) == ("a", "b")
