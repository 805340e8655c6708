# SPDX-License-Identifier: Apache-2.0
"""The logger on a real socket: server, client, the writer that runs beside a job, and callers that
mean no good.
"""

from __future__ import annotations

import threading

import grpc
import pytest
from tests.adapters.rpc.conftest import EDITION, MAX_BYTES, NAME, access_to
from tests.fakes.definitions import Wallet

from gridstead.adapters.channel import GrpcPeer
from gridstead.adapters.logger import LoggerClient, LogQuery, WriteAccess
from gridstead.adapters.logs import Limits
from gridstead.domain.log import MAX_LINE_BYTES, Chunk, Stream
from gridstead.domain.log_access import read_text, watch_text
from gridstead.errors import InvalidInput, LogDamaged, LogFull, LoggerUnavailable, NotAllowed
from gridstead.proto.logger_pb2 import ReadRequest, WatchListRequest, WriteRequest


def line(data, at=1, **fields):
    return Chunk(data=data, timestamp_ns=at, **fields)


@pytest.fixture
def read(client, owner, clock):
    """Opens a stream on the owner's log; it yields (line, timestamp ns)."""
    opened = []

    def start(**fields):
        query = LogQuery(owner=owner.address, log_name=NAME, **fields)
        opened.append(client.read(query, now=clock.now(), sign=owner.sign))
        return ((data, some.timestamp_ns) for some in opened[-1] for data in some.lines)

    yield start
    for stream in opened:
        stream.close()


def take(lines, count):
    """The text of the first so many lines of a stream."""
    return [data.decode() for data, _ in (next(lines) for _ in range(count))]


class TestLines:
    def test_owner_reads_what_the_job_wrote(self, client, access, read):
        client.write(access, [line(b"one", 1), line(b"", 2), line(b"three", 3)])

        assert list(read(until_now=True)) == [(b"one", 1), (b"", 2), (b"three", 3)]

    def test_reader_that_comes_first_waits_for_the_first_line(self, client, access, read):
        lines = read()
        got = []
        reader = threading.Thread(target=lambda: got.extend(take(lines, 2)))
        reader.start()

        client.write(access, [line(b"late")])
        client.write(access, [line(b"later")])
        reader.join(10)

        assert got == ["late", "later"]

    def test_log_that_is_not_there_ends_at_once_for_who_wants_an_end(self, read):
        assert list(read(until_now=True)) == []

    def test_long_log_is_read_to_its_end(self, client, access, read):
        client.write(access, [line(b"x" * 20, number) for number in range(900)])

        assert [at for _, at in read(until_now=True)] == list(range(900))

    def test_message_that_comes_again_is_stored_once(self, client, access, read):
        for _ in range(2):
            client.write(
                access, [line(b"one", writer=1, sequence=1), line(b"two", writer=1, sequence=2)]
            )

        assert take(read(until_now=True), 2) == ["one", "two"]
        assert len(list(read(until_now=True))) == 2

    def test_reader_goes_on_where_it_was(self, client, access, owner, clock):
        client.write(access, [line(b"%d\n%d'" % (number, number)) for number in range(5)])
        got, resume = [], 0
        for _ in range(3):
            query = LogQuery(owner=owner.address, log_name=NAME, after=resume)
            stream = client.read(query, now=clock.now(), sign=owner.sign)
            some = [next(stream), next(stream)] if len(got) < 4 else [next(stream)]
            stream.close()
            got += [(some_lines.first, *some_lines.lines) for some_lines in some]
            resume = some[-1].resume

        assert got == [(2 * number + 1, b"%d" % number, b"%d'" % number) for number in range(5)]

    def test_streams_are_told_apart(self, client, access, owner, clock):
        client.write(access, [line(b"x", stream=stream) for stream in Stream])

        query = LogQuery(owner=owner.address, log_name=NAME, until_now=True)
        got = [some.stream for some in client.read(query, now=clock.now(), sign=owner.sign)]
        assert got == list(Stream)

    def test_reader_asks_for_one_log_identity_or_gets_the_newest(
        self, client, access, owner, clock, read
    ):
        client.write(access, [line(b"old")])
        client.write(access_to(owner.address, clock, log_identity="2" * 32), [line(b"new")])

        got = [
            take(read(until_now=True, log_identity=log_identity), 1)
            for log_identity in (EDITION, "2" * 32, "")
        ]
        assert got == [["old"], ["new"], ["new"]]
        with pytest.raises(InvalidInput):
            next(read(log_identity="../x"))

    def test_position_that_is_none_is_refused(self, client, access, read):
        client.write(access, [line(b"x" * 500)])

        with pytest.raises(LogDamaged):
            next(read(after=200))

    def test_names_lists_the_owners_logs(self, client, access, owner, clock):
        client.write(access, [line(b"x")])

        assert client.names(owner.address, now=clock.now(), sign=owner.sign) == (NAME,)

    def test_log_that_is_full_says_so_to_writer_and_reader(self, client, access, read):
        with pytest.raises(LogFull):
            client.write(access, [line(b"x" * 60_000), line(b"x" * 60_000)])

        assert [data[:30] for data, _ in read(until_now=True)] == [
            b"x" * 30,
            b"gridstead: this log has reache",
        ]


class TestOldWire:
    """Clients of DeepSquare know fields 1 to 4 of requests and 1 and 2 of responses."""

    @pytest.fixture
    def responses(self, stub, owner, clock):
        text = read_text(owner.address, NAME, clock.now()).encode()
        signed = {
            "address": owner.address,
            "timestamp": clock.now(),
            "signed_hash": owner.sign(text),
        }
        return stub.Read(ReadRequest(log_name=NAME, **signed))

    def test_writer_may_send_several_lines_in_a_message(self, stub, access, owner, responses):
        requests = [
            WriteRequest(user=owner.address, log_name=NAME, data=b"one\r\ntwo\n", timestamp=7)
        ]
        stub.Write(iter(requests), metadata=[("authorization", f"Bearer {access.token}")])

        got = [next(responses) for _ in range(2)]
        assert [(one.data, one.timestamp) for one in got] == [(b"one", 7), (b"two", 7)]

    def test_reader_gets_a_line_in_each_response_and_may_go_on_from_any(
        self, stub, client, access, owner, clock, responses
    ):
        client.write(access, [line(b"one\ntwo"), line(b"three")])

        got = [next(responses) for _ in range(3)]

        assert [one.data for one in got] == [b"one", b"two", b"three"]
        assert [one.line for one in got] == [1, 2, 3]
        text = read_text(owner.address, NAME, clock.now()).encode()
        for last, following in zip(got, ([b"two", b"three"], [b"three"]), strict=False):
            request = ReadRequest(
                address=owner.address, log_name=NAME, timestamp=clock.now(), signed_hash=owner.sign(text),
                after=last.resume, until_now=True,
            )  # fmt: skip
            assert [one.data for one in stub.Read(request) if one.line > last.line] == following

    def test_line_that_is_too_long_for_a_message_comes_in_parts(
        self, client, owner, clock, responses, service
    ):
        service._sink._limits = Limits()
        client.write(
            access_to(owner.address, clock), [line(b"x" * (MAX_LINE_BYTES + 1)), line(b"y")]
        )

        assert [len(next(responses).data) for _ in range(3)] == [MAX_LINE_BYTES, 1, 1]
        service._sink._limits = Limits(log_bytes=MAX_BYTES)

    def test_stream_that_is_none_of_ours_is_unknown(self, stub, access, owner, responses):
        requests = [WriteRequest(user=owner.address, log_name=NAME, data=b"x", stream=99)]
        stub.Write(iter(requests), metadata=[("authorization", f"Bearer {access.token}")])

        assert next(responses).stream == 0


class TestWriters:
    def test_token_of_another_log_is_refused(self, client, owner, root, clock):
        token = access_to(Wallet().address, clock).token

        with pytest.raises(NotAllowed):
            client.write(WriteAccess(owner=owner.address, log_name=NAME, token=token), [line(b"x")])

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

    @pytest.mark.parametrize(
        "metadata", [[], [("authorization", "Basic x")], [("authorization", "")]]
    )
    def test_no_token_is_refused(self, stub, owner, metadata):
        with pytest.raises(grpc.RpcError) as caught:
            stub.Write(
                iter([WriteRequest(user=owner.address, log_name=NAME, data=b"x")]),
                metadata=metadata,
            )

        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    @pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "a\n", "x" * 200])
    def test_name_that_is_a_path_is_refused(self, client, owner, name):
        access = WriteAccess(owner=owner.address, log_name=name, token="t")

        with pytest.raises(InvalidInput):
            client.write(access, [line(b"x")])

    @pytest.mark.parametrize("user", ["", "..", "0x" + "AB" * 20, "0x" + "ab" * 20 + "/.."])
    def test_owner_that_is_a_path_is_refused(self, client, user):
        with pytest.raises(InvalidInput):
            client.write(WriteAccess(owner=user, log_name=NAME, token="t"), [line(b"x")])


class TestReaders:
    def status(self, stub, **fields):
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.Read(ReadRequest(**fields), timeout=10))
        return caught.value.code()

    def signed(self, wallet, timestamp, name=NAME):
        return wallet.sign(read_text(wallet.address, name, timestamp).encode())

    def test_milliseconds_and_a_checksummed_address_and_low_v_are_taken(
        self, stub, client, access, owner, clock
    ):
        client.write(access, [line(b"x")])
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

        code = self.status(
            stub, address=owner.address, log_name=NAME, timestamp=timestamp, signed_hash=signature
        )

        assert code is grpc.StatusCode.UNAUTHENTICATED

    def test_signature_for_another_log_is_refused(self, stub, owner, clock):
        signature = self.signed(owner, clock.now(), name="another")

        code = self.status(
            stub, address=owner.address, log_name=NAME, timestamp=clock.now(), signed_hash=signature
        )

        assert code is grpc.StatusCode.UNAUTHENTICATED

    def test_signature_to_list_does_not_read(self, stub, owner, clock):
        signature = owner.sign(watch_text(owner.address, clock.now()).encode())

        code = self.status(
            stub, address=owner.address, log_name=NAME, timestamp=clock.now(), signed_hash=signature
        )

        assert code is grpc.StatusCode.UNAUTHENTICATED

    def test_signature_of_another_wallet_is_refused(self, stub, owner, clock):
        signature = Wallet().sign(read_text(owner.address, NAME, clock.now()).encode())

        code = self.status(
            stub, address=owner.address, log_name=NAME, timestamp=clock.now(), signed_hash=signature
        )

        assert code is grpc.StatusCode.UNAUTHENTICATED

    @pytest.mark.parametrize("signature", [b"", b"x", b"\x00" * 65, b"\xff" * 65, b"\x01" * 66])
    def test_malformed_signature_is_refused(self, stub, owner, clock, signature):
        fields = {"log_name": NAME, "timestamp": clock.now(), "signed_hash": signature}

        assert self.status(stub, address=owner.address, **fields) is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as caught:
            next(
                stub.WatchList(
                    WatchListRequest(
                        address=owner.address, timestamp=clock.now(), signed_hash=signature
                    )
                )
            )
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    @pytest.mark.parametrize("name", ["../" + "0x" + "11" * 20 + "/job", "", "a/b"])
    def test_name_that_is_a_path_is_refused(self, stub, owner, clock, name):
        signature = self.signed(owner, clock.now(), name=name)

        code = self.status(
            stub, address=owner.address, log_name=name, timestamp=clock.now(), signed_hash=signature
        )

        assert code is grpc.StatusCode.INVALID_ARGUMENT

    def test_client_tells_a_refusal_from_an_absence(self, client, owner, clock, authority):
        query = LogQuery(owner=owner.address, log_name=NAME)
        with pytest.raises(NotAllowed):
            next(client.read(query, now=clock.now() - 1000, sign=owner.sign))
        with pytest.raises(NotAllowed):
            client.names(owner.address, now=clock.now(), sign=Wallet().sign)

        away = LoggerClient(GrpcPeer(address="localhost:1", ca=authority.certificate))
        with pytest.raises(LoggerUnavailable):
            next(away.read(query, now=clock.now(), sign=owner.sign))
        with pytest.raises(LoggerUnavailable):
            away.names(owner.address, now=clock.now(), sign=owner.sign)
        away.close()
