# SPDX-License-Identifier: Apache-2.0
"""Random faulty gRPC requests. Each request gets a status, and the server stores nothing.

tests/unit/workflow/test_hostile.py, test_hostile_graphql.py and this module together test ten
thousand workflows and requests.
"""

from __future__ import annotations

import time
from random import Random

import grpc
import pytest
from tests.fakes.definitions import Wallet, matched_job, wire_workflow

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest, GetSBatchRequest

CUSTOMER = "0x" + "c0" * 20
REQUEST_COUNT = 2000
MAX_CPU_S = 2  # per request; most requests need 2 ms


@pytest.fixture
def channel(servers, ca):
    with open_channel(GrpcPeer(address=servers.address, ca=ca)) as channel:
        yield channel


def test_a_request_gets_a_script_or_a_status_and_stores_nothing(channel, servers):
    wallet = Wallet()
    script_id = servers.submit(wire_workflow(enableLogging=True), "", lambda _: None)
    job = matched_job(CUSTOMER, wallet.address, script_id)
    servers.ledger.job = job
    challenge = channel.unary_unary("/sbatchapi.v1alpha1.AuthAPI/Challenge")
    get_sbatch = channel.unary_unary("/sbatchapi.v1alpha1.SBatchAPI/GetSBatch")
    records_before = dict(servers.scripts.records)
    statuses = set()
    script_request = _signed_request(servers, wallet, job)
    for seed in range(REQUEST_COUNT):
        random = Random(seed)
        start_s = time.process_time()
        if seed % 10:  # nine of ten requests ask for a script
            status, details = _call(get_sbatch, _faulty_bytes(random, script_request))
        else:
            status, details = _call(challenge, _faulty_bytes(random, _challenge_request(wallet)))
        if status == "OK":  # a challenge can be used only once
            script_request = _signed_request(servers, wallet, job)
        statuses.add(status)

        assert "Traceback" not in details, seed
        assert time.process_time() - start_s < MAX_CPU_S, seed
        assert servers.scripts.records == records_before, seed

    # INTERNAL is the answer for an unknown job number: the chain may have the job soon.
    assert statuses == {"OK", "INVALID_ARGUMENT", "UNAUTHENTICATED", "NOT_FOUND", "INTERNAL"}


def _call(method, data):
    """Return the status and the details of a call with these bytes."""
    try:
        method(data, timeout=10)
    except grpc.RpcError as err:
        return err.code().name, err.details() or ""
    return "OK", ""


def _signed_request(servers, wallet, job):
    """Return a valid request for the script of a job, with a new challenge."""
    challenge = servers.service.challenge("")
    return GetSBatchRequest(
        batch_location_hash=job.batch_location_hash,
        signed_challenge=wallet.sign(challenge),
        challenge=challenge,
        provider_address=bytes.fromhex(wallet.address[2:]),
        customer_address=bytes.fromhex(CUSTOMER[2:]),
        job_id=job.id.slurm_job_name,
        secrets_beside=True,
    )


def _challenge_request(wallet):
    return ChallengeRequest(provider_address=bytes.fromhex(wallet.address[2:]))


def _faulty_bytes(random, request):
    """Return the bytes of a request with up to two changed fields, or with malformed bytes."""
    changed_request = type(request)()
    changed_request.CopyFrom(request)
    fields = list(changed_request.DESCRIPTOR.fields)
    fault_count = min(random.choice([0, 1, 1, 2]), len(fields))
    for field in random.sample(fields, fault_count):
        setattr(
            changed_request, field.name, _other_value(random, getattr(changed_request, field.name))
        )
    data = changed_request.SerializeToString()
    position = random.randrange(len(data) + 1)
    match random.randrange(8):
        case 0:
            return data[:position]
        case 1:
            inserted_bytes = random.randbytes(random.choice([1, 5, 50]))
            return data[:position] + inserted_bytes + data[position:]
        case 2:
            return data + _malformed_field(random)
        case 3:
            return _malformed_field(random) + data
        case 4 if data:
            return data[:position] + bytes([random.randrange(256)]) + data[position + 1 :]
        case _:
            return data


def _other_value(random, value):
    """Return a different value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return _other_text(random, value)
    if not value:
        return random.randbytes(20)
    return _other_bytes(random, value)


def _other_text(random, text):
    return random.choice([
        "", text.upper(), text[:-1], text + "0", text.replace("0x", "0X"), "0x" + "f" * 64,
        "0x" + "0" * 64, "0x" + "٣" * 64, "\0", "../../x", "é" * 9000, "' OR 1=1 --", "-1",
    ])  # fmt: skip


def _other_bytes(random, value):
    """Return bytes with another length, a flipped bit, or another recovery id of a signature."""
    choice = random.randrange(12)
    if choice < 2:
        changed_value = bytearray(value)
        changed_value[random.randrange(len(value))] ^= 1 << random.randrange(8)
        return bytes(changed_value)
    if choice < 4:
        recovery_id = random.choice([0, 1, 2, 3, 26, 27, 28, 29, 35, 255])
        return value[:-1] + bytes([recovery_id])
    return random.choice([
        b"", value[:-1], value + b"\0", value[:32], value * 2, value * 500, b"\0" * len(value),
        b"\xff" * len(value),
    ])  # fmt: skip


def _malformed_field(random):
    """Return an encoded field that no serializer writes.

    The field has any number and wire type, and its length may be wrong.
    """
    number = random.choice([1, 2, 3, 6, 7, 8, 15, 2**29 - 1, 0])
    wire_type = random.randrange(8)
    tag = _varint(number << 3 | wire_type)  # the lowest three bits are the wire type
    match wire_type:
        case 0:
            return tag + _varint(random.choice([0, 1, 2**64 - 1]))
        case 1:
            return tag + b"\0" * 8
        case 5:
            return tag + b"\0" * 4
    length = random.choice([0, 1, 5, 2**31, 2**63])
    content = random.randbytes(min(length, 5)) + random.choice([b"", b"\xff" * 11])
    return tag + _varint(length) + content


def _varint(value):
    """Return a number in the variable-length encoding of Protocol Buffers."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
