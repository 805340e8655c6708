# SPDX-License-Identifier: Apache-2.0
"""The gRPC server of the logger: requests of our client, of old clients and of hostile clients."""

from __future__ import annotations

import itertools
import threading

import grpc
import pytest
from tests.adapters.rpc.conftest import LOG_IDENTITY, MAX_BYTES, NAME, access_to
from tests.fakes.definitions import Wallet

from gridstead.adapters.channel import GrpcPeer
from gridstead.adapters.logs.client import LoggerClient, LogQuery, WriteAccess
from gridstead.adapters.logs.files import Limits
from gridstead.domain.logs.access import read_request_text, watch_request_text
from gridstead.domain.logs.log import MAX_LINE_BYTES, Chunk, Stream
from gridstead.errors import InvalidInput, LogDamaged, LogFull, LoggerUnavailable, NotAllowed
from gridstead.proto.logger_pb2 import ReadRequest, WatchListRequest, WriteRequest


def line(data, timestamp_ns=1, **fields):
    """Return a chunk with one line."""
    return Chunk(data=data, timestamp_ns=timestamp_ns, **fields)


def lines_with_times(blocks):
    """Yield (line, timestamp in ns) of each line in blocks."""
    for block in blocks:
        for data in block.lines:
            yield data, block.timestamp_ns


@pytest.fixture
def read(client, owner, clock):
    """Return a function that opens a stream of the owner's log.

    The stream yields (line, timestamp in ns).
    """
    streams = []

    def start(**fields):
        query = LogQuery(owner=owner.address, log_name=NAME, **fields)
        streams.append(client.read(query, now=clock.now(), sign=owner.sign))
        return lines_with_times(streams[-1])

    yield start
    for stream in streams:
        stream.close()


def next_lines(lines, count):
    """Return the text of the next ``count`` lines of a stream."""
    return [data.decode() for data, _ in itertools.islice(lines, count)]


class TestLines:
    def test_owner_reads_the_lines_of_the_job(self, client, access, read):
        client.write(access, [line(b"one", 1), line(b"", 2), line(b"three", 3)])

        assert list(read(until_now=True)) == [(b"one", 1), (b"", 2), (b"three", 3)]

    def test_reader_of_a_new_log_waits_for_its_first_line(self, client, access, read):
        lines = read()
        received_lines = []
        reader = threading.Thread(target=lambda: received_lines.extend(next_lines(lines, 2)))
        reader.start()

        client.write(access, [line(b"late")])
        client.write(access, [line(b"later")])
        reader.join(10)

        assert received_lines == ["late", "later"]

    def test_read_until_now_of_a_missing_log_returns_nothing(self, read):
        assert list(read(until_now=True)) == []

    def test_long_log_is_read_to_its_end(self, client, access, read):
        client.write(access, [line(b"x" * 20, number) for number in range(900)])

        timestamps = [timestamp for _, timestamp in read(until_now=True)]
        assert timestamps == list(range(900))

    def test_chunk_that_is_sent_twice_is_stored_once(self, client, access, read):
        chunks = [line(b"one", writer=1, sequence=1), line(b"two", writer=1, sequence=2)]
        client.write(access, chunks)
        client.write(access, chunks)

        assert list(read(until_now=True)) == [(b"one", 1), (b"two", 1)]

    def test_reader_resumes_after_its_last_line(self, client, access, owner, clock):
        client.write(access, [line(b"a\nb"), line(b"c\nd"), line(b"e\nf")])

        def read_blocks(after, count):
            query = LogQuery(owner=owner.address, log_name=NAME, after=after)
            stream = client.read(query, now=clock.now(), sign=owner.sign)
            blocks = list(itertools.islice(stream, count))
            stream.close()
            return blocks

        first, second = read_blocks(after=0, count=2)
        (third,) = read_blocks(after=second.resume, count=1)

        assert (first.first, first.lines) == (1, (b"a", b"b"))
        assert (second.first, second.lines) == (3, (b"c", b"d"))
        assert (third.first, third.lines) == (5, (b"e", b"f"))

    def test_every_line_has_its_stream(self, client, access, owner, clock):
        client.write(access, [line(b"x", stream=stream) for stream in Stream])

        query = LogQuery(owner=owner.address, log_name=NAME, until_now=True)
        blocks = client.read(query, now=clock.now(), sign=owner.sign)
        assert [block.stream for block in blocks] == list(Stream)

    def test_reader_gets_the_requested_or_the_newest_log(self, client, access, owner, clock, read):
        client.write(access, [line(b"old")])
        client.write(access_to(owner.address, clock, log_identity="2" * 32), [line(b"new")])

        for log_identity, text in [(LOG_IDENTITY, b"old"), ("2" * 32, b"new"), ("", b"new")]:
            assert list(read(until_now=True, log_identity=log_identity)) == [(text, 1)]
        with pytest.raises(InvalidInput):
            next(read(log_identity="../x"))

    def test_position_inside_a_chunk_is_refused(self, client, access, read):
        client.write(access, [line(b"x" * 500)])

        with pytest.raises(LogDamaged):
            next(read(after=200))  # the chunk has more than 500 bytes

    def test_names_lists_the_owners_logs(self, client, access, owner, clock):
        client.write(access, [line(b"x")])

        assert client.names(owner.address, now=clock.now(), sign=owner.sign) == (NAME,)

    def test_full_log_is_reported_to_writer_and_reader(self, client, access, read):
        with pytest.raises(LogFull):
            client.write(access, [line(b"x" * 60_000), line(b"x" * 60_000)])

        (first_line, _), (message, _) = read(until_now=True)
        assert first_line == b"x" * 60_000
        assert message.startswith(b"gridstead: this log has reached")


class TestOldClients:
    """Requests of DeepSquare's clients.

    These clients know only the fields 1 to 4 of requests, and the fields 1 and 2 of responses.
    """

    @pytest.fixture
    def responses(self, stub, owner, clock):
        """Return the stream of responses to a request that has only the old fields."""
        text = read_request_text(owner.address, NAME, clock.now()).encode()
        signed_fields = {
            "address": owner.address,
            "timestamp": clock.now(),
            "signed_hash": owner.sign(text),
        }
        return stub.Read(ReadRequest(log_name=NAME, **signed_fields))

    def test_write_request_can_contain_several_lines(self, stub, access, owner, responses):
        requests = [
            WriteRequest(user=owner.address, log_name=NAME, data=b"one\r\ntwo\n", timestamp=7)
        ]
        stub.Write(iter(requests), metadata=[("authorization", f"Bearer {access.token}")])

        first, second = next(responses), next(responses)
        assert (first.data, first.timestamp) == (b"one", 7)
        assert (second.data, second.timestamp) == (b"two", 7)

    def test_each_response_has_one_line_after_which_a_reader_can_resume(
        self, stub, client, access, owner, clock, responses
    ):
        client.write(access, [line(b"one\ntwo"), line(b"three")])

        def lines_after(response):
            text = read_request_text(owner.address, NAME, clock.now()).encode()
            request = ReadRequest(
                address=owner.address,
                log_name=NAME,
                timestamp=clock.now(),
                signed_hash=owner.sign(text),
                after=response.resume,
                until_now=True,
            )
            # The logger resumes at the start of a chunk. The reader skips the lines that it knows.
            return [
                later_line.data
                for later_line in stub.Read(request)
                if later_line.line > response.line
            ]

        first, second, third = itertools.islice(responses, 3)

        assert (first.line, first.data) == (1, b"one")
        assert (second.line, second.data) == (2, b"two")
        assert (third.line, third.data) == (3, b"three")
        assert lines_after(first) == [b"two", b"three"]
        assert lines_after(second) == [b"three"]

    def test_very_long_line_is_split_into_several_responses(
        self, client, owner, clock, responses, service
    ):
        service._store._limits = Limits()  # a larger limit than that of the fixture
        client.write(
            access_to(owner.address, clock), [line(b"x" * (MAX_LINE_BYTES + 1)), line(b"y")]
        )

        assert [len(next(responses).data) for _ in range(3)] == [MAX_LINE_BYTES, 1, 1]
        service._store._limits = Limits(log_bytes=MAX_BYTES)

    def test_unknown_stream_is_stored_as_0(self, stub, access, owner, responses):
        requests = [WriteRequest(user=owner.address, log_name=NAME, data=b"x", stream=99)]
        stub.Write(iter(requests), metadata=[("authorization", f"Bearer {access.token}")])

        assert next(responses).stream == 0


class TestWriters:
    def test_token_of_another_log_is_refused(self, client, owner, root, clock):
        token = access_to(Wallet().address, clock).token

        with pytest.raises(NotAllowed):
            client.write(WriteAccess(owner=owner.address, log_name=NAME, token=token), [line(b"x")])

        assert not (root / owner.address).exists()

    def test_every_message_of_a_stream_must_be_for_the_log_of_the_token(
        self, stub, access, owner, root
    ):
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
    def test_write_without_a_token_is_refused(self, stub, owner, metadata):
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
        """Return the status of a Read request that is refused."""
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.Read(ReadRequest(**fields), timeout=10))
        return caught.value.code()

    def signature(self, wallet, timestamp, name=NAME):
        return wallet.sign(read_request_text(wallet.address, name, timestamp).encode())

    def test_other_formats_of_time_address_and_signature_are_accepted(
        self, stub, client, access, owner, clock
    ):
        """The time is in milliseconds, the address has a checksum, the recovery id is 0 or 1."""
        client.write(access, [line(b"x")])
        owner.low_v = True
        timestamp = clock.now() * 1000

        request = ReadRequest(
            address=owner.account.address,
            log_name=NAME,
            timestamp=timestamp,
            signed_hash=self.signature(owner, timestamp),
        )

        assert next(stub.Read(request)).data == b"x"

    @pytest.mark.parametrize("factor", [1, 1000])  # seconds or milliseconds
    @pytest.mark.parametrize("age_s", [301, -301])
    def test_signature_is_refused_if_its_time_differs_by_more_than_five_minutes(
        self, stub, owner, clock, factor, age_s
    ):
        timestamp = (clock.now() - age_s) * factor
        signature = self.signature(owner, timestamp)

        code = self.status(
            stub, address=owner.address, log_name=NAME, timestamp=timestamp, signed_hash=signature
        )

        assert code is grpc.StatusCode.UNAUTHENTICATED

    def test_signature_for_another_log_is_refused(self, stub, owner, clock):
        signature = self.signature(owner, clock.now(), name="another")

        code = self.status(
            stub, address=owner.address, log_name=NAME, timestamp=clock.now(), signed_hash=signature
        )

        assert code is grpc.StatusCode.UNAUTHENTICATED

    def test_signature_for_the_list_of_logs_is_refused_for_a_log(self, stub, owner, clock):
        signature = owner.sign(watch_request_text(owner.address, clock.now()).encode())

        code = self.status(
            stub, address=owner.address, log_name=NAME, timestamp=clock.now(), signed_hash=signature
        )

        assert code is grpc.StatusCode.UNAUTHENTICATED

    def test_signature_of_another_wallet_is_refused(self, stub, owner, clock):
        signature = Wallet().sign(read_request_text(owner.address, NAME, clock.now()).encode())

        code = self.status(
            stub, address=owner.address, log_name=NAME, timestamp=clock.now(), signed_hash=signature
        )

        assert code is grpc.StatusCode.UNAUTHENTICATED

    @pytest.mark.parametrize("signature", [b"", b"x", b"\x00" * 65, b"\xff" * 65, b"\x01" * 66])
    def test_malformed_signature_is_refused(self, stub, owner, clock, signature):
        fields = {"address": owner.address, "timestamp": clock.now(), "signed_hash": signature}

        assert self.status(stub, log_name=NAME, **fields) is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.WatchList(WatchListRequest(**fields)))
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    @pytest.mark.parametrize("name", ["../" + "0x" + "11" * 20 + "/job", "", "a/b"])
    def test_name_that_is_a_path_is_refused(self, stub, owner, clock, name):
        signature = self.signature(owner, clock.now(), name=name)

        code = self.status(
            stub, address=owner.address, log_name=name, timestamp=clock.now(), signed_hash=signature
        )

        assert code is grpc.StatusCode.INVALID_ARGUMENT

    def test_client_distinguishes_a_refusal_from_an_unreachable_logger(
        self, client, owner, clock, authority
    ):
        query = LogQuery(owner=owner.address, log_name=NAME)
        with pytest.raises(NotAllowed):
            next(client.read(query, now=clock.now() - 1000, sign=owner.sign))
        with pytest.raises(NotAllowed):
            client.names(owner.address, now=clock.now(), sign=Wallet().sign)

        unreachable = LoggerClient(GrpcPeer(address="localhost:1", ca=authority.certificate))
        with pytest.raises(LoggerUnavailable):
            next(unreachable.read(query, now=clock.now(), sign=owner.sign))
        with pytest.raises(LoggerUnavailable):
            unreachable.names(owner.address, now=clock.now(), sign=owner.sign)
        unreachable.close()
