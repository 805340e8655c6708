# SPDX-License-Identifier: Apache-2.0
"""The logger on a real socket: server, client, the writer that runs beside a job, and callers that mean no good."""

from __future__ import annotations

import threading

import grpc
import pytest
from tests.fakes.definitions import Wallet

from gridstead.adapters.channel import Peer, open_channel
from gridstead.adapters.logger import LoggerClient, WriteAccess
from gridstead.domain.log_access import read_text, watch_text, write_token
from gridstead.errors import ConfigError, InvalidInput, LogFull, LoggerUnavailable, NotAllowed
from gridstead.proto.logger_pb2 import ReadRequest, WatchListRequest, WriteRequest
from gridstead.proto.logger_pb2_grpc import LoggerAPIStub
from gridstead.rpc.logger import LoggerServer

KEY = b"k" * 32
NAME = "0x" + "07" * 32


@pytest.fixture
def stub(peer):
    with open_channel(peer) as channel:
        yield LoggerAPIStub(channel)


def take(lines, count):
    """The text of the first so many lines of a stream."""
    return [data.decode() for data, _ in (next(lines) for _ in range(count))]


class TestLines:
    def test_owner_reads_what_the_job_wrote(self, client, access, owner, clock):
        client.write(access, [(b"one", 1), (b"", 2), (b"three", 3)])

        lines = client.read(owner.address, NAME, now=clock.now(), sign=owner.sign)

        assert [next(lines) for _ in range(3)] == [(b"one", 1), (b"", 2), (b"three", 3)]
        lines.close()

    def test_reader_that_comes_first_waits_for_the_first_line(self, client, access, owner, clock):
        lines = client.read(owner.address, NAME, now=clock.now(), sign=owner.sign)
        got = []
        reader = threading.Thread(target=lambda: got.extend(take(lines, 2)))
        reader.start()

        client.write(access, [(b"late", 1)])
        client.write(access, [(b"later", 2)])
        reader.join(10)

        assert got == ["late", "later"]
        lines.close()

    def test_long_log_is_read_to_its_end(self, client, access, owner, clock):
        client.write(access, [(b"x" * 90, number) for number in range(900)])

        lines = client.read(owner.address, NAME, now=clock.now(), sign=owner.sign)

        assert sum(1 for _ in zip(range(900), lines, strict=False)) == 900
        lines.close()

    def test_foreign_writer_may_send_several_lines_in_a_message(self, client, access, owner, clock):
        client.write(access, [(b"one\r\ntwo\n", 1)])

        assert take(client.read(owner.address, NAME, now=clock.now(), sign=owner.sign), 2) == ["one", "two"]

    def test_names_lists_the_owners_logs(self, client, access, owner, clock):
        client.write(access, [(b"x", 1)])

        assert client.names(owner.address, now=clock.now(), sign=owner.sign) == (NAME,)

    def test_log_that_is_full_says_so(self, client, access):
        with pytest.raises(LogFull):
            client.write(access, [(b"x" * 60_000, 1), (b"x" * 60_000, 2)])


class TestWriters:
    def test_token_of_another_log_is_refused(self, client, owner, root):
        access = WriteAccess(owner=owner.address, log_name=NAME, token=write_token(KEY, Wallet().address, NAME))

        with pytest.raises(NotAllowed):
            client.write(access, [(b"x", 1)])

        assert not (root / owner.address).exists()

    def test_token_covers_every_message_of_a_stream(self, stub, access, owner, root):
        victim = Wallet().address
        requests = [
            WriteRequest(user=owner.address, log_name=NAME, data=b"mine"),
            WriteRequest(user=victim, log_name=NAME, data=b"not mine"),
        ]

        with pytest.raises(grpc.RpcError) as caught:
            stub.Write(iter(requests), metadata=[("authorization", f"Bearer {access.token}")])

        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert not (root / victim).exists()

    @pytest.mark.parametrize("metadata", [[], [("authorization", "Basic x")], [("authorization", "")]])
    def test_no_token_is_refused(self, stub, owner, metadata):
        with pytest.raises(grpc.RpcError) as caught:
            stub.Write(iter([WriteRequest(user=owner.address, log_name=NAME, data=b"x")]), metadata=metadata)

        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    @pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "a\n", "x" * 200])
    def test_name_that_is_a_path_is_refused(self, client, owner, name):
        access = WriteAccess(owner=owner.address, log_name=name, token="t")

        with pytest.raises(InvalidInput):
            client.write(access, [(b"x", 1)])

    @pytest.mark.parametrize("user", ["", "..", "0x" + "AB" * 20, "0x" + "ab" * 20 + "/.."])
    def test_owner_that_is_a_path_is_refused(self, client, user):
        with pytest.raises(InvalidInput):
            client.write(WriteAccess(owner=user, log_name=NAME, token="t"), [(b"x", 1)])


class TestReaders:
    def status(self, stub, **fields):
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.Read(ReadRequest(**fields), timeout=10))
        return caught.value.code()

    def signed(self, wallet, timestamp, name=NAME):
        return wallet.sign(read_text(wallet.address, name, timestamp).encode())

    def test_milliseconds_and_a_checksummed_address_and_low_v_are_taken(self, stub, client, access, owner, clock):
        client.write(access, [(b"x", 1)])
        owner.low_v = True
        timestamp = clock.now() * 1000

        request = ReadRequest(
            address=owner.account.address,
            log_name=NAME,
            timestamp=timestamp,
            signed_hash=self.signed(owner, timestamp),
        )

        assert next(stub.Read(request)).data == b"x"

    @pytest.mark.parametrize("factor", [1, 1000])
    @pytest.mark.parametrize("age_s", [301, -301])
    def test_old_signature_is_refused(self, stub, owner, clock, factor, age_s):
        timestamp = (clock.now() - age_s) * factor
        signature = self.signed(owner, timestamp)

        code = self.status(stub, address=owner.address, log_name=NAME, timestamp=timestamp, signed_hash=signature)

        assert code is grpc.StatusCode.UNAUTHENTICATED

    def test_signature_for_another_log_is_refused(self, stub, owner, clock):
        signature = self.signed(owner, clock.now(), name="another")

        code = self.status(stub, address=owner.address, log_name=NAME, timestamp=clock.now(), signed_hash=signature)

        assert code is grpc.StatusCode.UNAUTHENTICATED

    def test_signature_to_list_does_not_read(self, stub, owner, clock):
        signature = owner.sign(watch_text(owner.address, clock.now()).encode())

        code = self.status(stub, address=owner.address, log_name=NAME, timestamp=clock.now(), signed_hash=signature)

        assert code is grpc.StatusCode.UNAUTHENTICATED

    def test_signature_of_another_wallet_is_refused(self, stub, owner, clock):
        signature = Wallet().sign(read_text(owner.address, NAME, clock.now()).encode())

        code = self.status(stub, address=owner.address, log_name=NAME, timestamp=clock.now(), signed_hash=signature)

        assert code is grpc.StatusCode.UNAUTHENTICATED

    @pytest.mark.parametrize("signature", [b"", b"x", b"\x00" * 65, b"\xff" * 65, b"\x01" * 66])
    def test_malformed_signature_is_refused(self, stub, owner, clock, signature):
        fields = {"log_name": NAME, "timestamp": clock.now(), "signed_hash": signature}

        assert self.status(stub, address=owner.address, **fields) is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.WatchList(WatchListRequest(address=owner.address, timestamp=clock.now(), signed_hash=signature)))
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    @pytest.mark.parametrize("name", ["../" + "0x" + "11" * 20 + "/job", "", "a/b"])
    def test_name_that_is_a_path_is_refused(self, stub, owner, clock, name):
        signature = self.signed(owner, clock.now(), name=name)

        code = self.status(stub, address=owner.address, log_name=name, timestamp=clock.now(), signed_hash=signature)

        assert code is grpc.StatusCode.INVALID_ARGUMENT

    def test_client_tells_a_refusal_from_an_absence(self, client, owner, clock, authority):
        with pytest.raises(NotAllowed):
            next(client.read(owner.address, NAME, now=clock.now() - 1000, sign=owner.sign))
        with pytest.raises(NotAllowed):
            client.names(owner.address, now=clock.now(), sign=Wallet().sign)

        away = LoggerClient(Peer(address="localhost:1", ca=authority.certificate))
        with pytest.raises(LoggerUnavailable):
            next(away.read(owner.address, NAME, now=clock.now(), sign=owner.sign))
        with pytest.raises(LoggerUnavailable):
            away.names(owner.address, now=clock.now(), sign=owner.sign)
        away.close()


def test_port_that_is_taken_is_the_operators(address, server_tls, service):
    server = LoggerServer(address.replace("localhost", "127.0.0.1"), server_tls, service)

    with pytest.raises(ConfigError, match="could not listen"):
        server.start()

    server.stop()
