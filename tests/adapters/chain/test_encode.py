# SPDX-License-Identifier: Apache-2.0
"""Tests of the encoding of calls, for our contracts and for the contracts of DeepSquare 1.2."""

from __future__ import annotations

from dataclasses import replace

import pytest
from eth_abi.abi import decode
from eth_utils.crypto import keccak
from tests.fakes.ledger import HARDWARE, PRICES

from gridstead.adapters.chain.abi import reason
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.job_queues import ProviderJobQueues
from gridstead.adapters.chain.job_repository import JobRepository
from gridstead.adapters.chain.meta_scheduler import MetaSchedulerContract
from gridstead.adapters.chain.money import Constants, Credit
from gridstead.adapters.chain.provider_manager import ProviderManager
from gridstead.adapters.transactions.encode import QUEUE_ENTRIES, encode, gas_of
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Label
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import (
    MAX_ERROR_BYTES,
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Expire,
    Match,
    Refuse,
    Register,
    SetRunning,
    Settle,
)

PROVIDER = "0x" + "a1" * 20
JOB_KEY = JobKey(
    job_id=JobId(chain_id=179188, contract="0x" + "5c" * 20, number=7), batch_location_hash="a"
)
ID = (7).to_bytes(32)
EVIDENCE = "0x" + "ee" * 32
SETTLE = Settle(
    job_key=JOB_KEY,
    state=JobState.FAILED,
    seconds=119,
    exit_code=3 << 8,
    error="bad",
    evidence=EVIDENCE,
)
SETTLE_MANY = "settleMany((bytes32,uint8,uint64,int64,string,bytes32)[])"
SET_STATUS = "providerSetJobStatus(bytes32,uint8,uint64,string,int64)"
LABELS = (Label(key="os", value="linux"),)
EXPIRE = Expire(job_key=JOB_KEY, state=JobState.META_SCHEDULED, state_block=9)
REGISTER = Register(hardware=HARDWARE, prices=PRICES, labels=LABELS)


def contracts_of_version(version):
    """Return our contracts of a version. An empty version means the contracts of DeepSquare 1.2."""
    return Contracts(
        chain_id=179188,
        version=version,
        meta_scheduler=MetaSchedulerContract(f"0x{1:040x}"),
        jobs=JobRepository(f"0x{2:040x}"),
        providers=ProviderManager(f"0x{3:040x}"),
        queues=ProviderJobQueues(f"0x{4:040x}"),
        constants=Constants(f"0x{5:040x}"),
        credit=Credit(f"0x{6:040x}"),
    )


def decode_arguments(payload, signature):
    """Return the arguments of a call, or None if it calls another function."""
    data = bytes.fromhex(payload.data[2:])
    if data[:4] != keccak(text=signature)[:4]:
        return None
    types = signature[signature.index("(") :]
    if types == "()":
        return ()
    encoded_arguments = data[4:]
    if "[" in types or "string" in types:
        # The arguments are decoded as one tuple. The offset of a dynamic tuple precedes it.
        encoded_arguments = (32).to_bytes(32) + encoded_arguments
    return decode([types], encoded_arguments)[0]


@pytest.mark.parametrize(
    ("call", "signature", "arguments"),
    [
        (ClaimJobs(limit=9), "claimJobs(uint256)", (9,)),
        (ClaimCancelling(), "claimCancellations(uint256)", (QUEUE_ENTRIES,)),
        (ClaimTopUp(), "claimTopUps(uint256)", (QUEUE_ENTRIES,)),
        (
            Match(job_key=JOB_KEY, provider=PROVIDER, max_price_per_min=7),
            "metaScheduleMany((bytes32,address,uint256)[])",
            (((ID, PROVIDER, 7),),),
        ),
        (
            SetRunning(job_key=JOB_KEY, started_at=5),
            "setRunningMany((bytes32,uint64)[])",
            (((ID, 5),),),
        ),
        (Refuse(job_key=JOB_KEY), "refuseMany(bytes32[])", ((ID,),)),
        (EXPIRE, "expireJob(bytes32)", (ID,)),
        (
            SETTLE,
            SETTLE_MANY,
            (((ID, 6, 119, 3 << 8, "bad", b"\xee" * 32),),),
        ),
    ],
)
def test_our_contracts_receive_calls_as_batches(call, signature, arguments):
    contracts = contracts_of_version("2.0.0")

    payload = encode([call], contracts)

    assert payload.to == contracts.meta_scheduler.address
    assert decode_arguments(payload, signature) == arguments


@pytest.mark.parametrize(
    ("call", "signature", "arguments"),
    [
        (ClaimJobs(limit=9), "claimNextJob()", ()),
        (ClaimCancelling(), "claimNextCancellingJob()", ()),
        (ClaimTopUp(), "claimNextTopUpJob()", ()),
        (
            Match(job_key=JOB_KEY, provider=PROVIDER, max_price_per_min=7),
            "metaSchedule(bytes32,address)",
            (ID, PROVIDER),
        ),
        (
            SetRunning(job_key=JOB_KEY, started_at=5),
            SET_STATUS,
            (ID, 3, 0, "", 0),
        ),
        (Refuse(job_key=JOB_KEY), "refuseJob(bytes32)", (ID,)),
        (EXPIRE, "timeoutJob(bytes32)", (ID,)),
        # The 119 seconds are rounded down to one minute.
        (SETTLE, SET_STATUS, (ID, 6, 1, "bad", 3 << 8)),
    ],
)
def test_deepsquare_contracts_receive_single_calls_and_whole_minutes(call, signature, arguments):
    payload = encode([call], contracts_of_version(""))

    assert decode_arguments(payload, signature) == arguments
    assert payload.gas is None


@pytest.mark.parametrize("version", ["2.0.0", ""])
def test_registration_is_sent_to_the_provider_manager(version):
    contracts = contracts_of_version(version)

    payload = encode([REGISTER], contracts)

    signature = (
        "register((uint64,uint64[],uint64[],uint64[]),(uint256,uint256,uint256),(string,string)[])"
    )
    hardware = (2, (0, 0), (64, 64), (4000, 4000))
    assert payload.to == contracts.providers.address
    assert decode_arguments(payload, signature) == (
        hardware,
        (10**18, 10**17, 10**14),
        (("os", "linux"),),
    )


def test_panic_is_reported_to_deepsquare_contracts_with_zero_minutes():
    """DeepSquare's contracts bill the reported minutes, but a panic is the provider's fault."""
    panic = replace(SETTLE, state=JobState.PANICKED, seconds=500)

    assert decode_arguments(encode([panic], contracts_of_version("")), SET_STATUS)[2] == 0


def test_several_calls_are_encoded_as_one_batch_in_order():
    calls = [refusal(3), refusal(1)]

    payload = encode(calls, contracts_of_version("2.0.0"))

    assert decode_arguments(payload, "refuseMany(bytes32[])") == (
        ((3).to_bytes(32), (1).to_bytes(32)),
    )


def refusal(number):
    job_id = JobId(chain_id=1, contract="", number=number)
    return Refuse(job_key=JobKey(job_id=job_id, batch_location_hash=""))


@pytest.mark.parametrize(
    ("stored", "sent"),
    [
        ("x" * MAX_ERROR_BYTES, "x" * MAX_ERROR_BYTES),
        ("x" * 500, "x" * MAX_ERROR_BYTES),
        ("ü" * 400, "ü" * (MAX_ERROR_BYTES // 2)),
        ("x" + "ü" * 400, "x" + "ü" * (MAX_ERROR_BYTES // 2 - 1)),
        ("\U0001f642" * 20, "\U0001f642" * (MAX_ERROR_BYTES // 4)),
        ("\udcff", "?"),  # half of a character cannot be encoded
    ],
)
@pytest.mark.parametrize("version", ["2.0.0", ""])
def test_error_of_an_earlier_release_is_truncated_between_characters(version, stored, sent):
    settlement = replace(SETTLE, error=stored)

    payload = encode([settlement], contracts_of_version(version))

    if version:
        (settlements,) = decode_arguments(payload, SETTLE_MANY)
        error = settlements[0][4]
    else:
        error = decode_arguments(payload, SET_STATUS)[3]
    assert error == sent
    assert gas_of(settlement) == gas_of(replace(SETTLE, error=sent))


ERROR = "08c379a0"  # the selector of Error(string)


def word(digits):
    """Return a number as an ABI word, in hexadecimal digits."""
    return digits.rjust(64, "0")


def selector(signature):
    return keccak(text=signature)[:4].hex()


@pytest.mark.parametrize(
    ("data", "name", "arguments"),
    [
        ("", "unknown", ("0x",)),
        ("12345678", "unknown", ("0x12345678",)),
        ("4e487b71" + word("11"), "Panic", ("0x11",)),  # the selector of Panic(uint256)
        (ERROR + word("20") + word("2") + "6869".ljust(64, "0"), "Error", ("hi",)),
        (ERROR + word("20") + word("1") + "ff".ljust(64, "0"), "Error", ("\ufffd",)),
        # The selector of Error(string), followed by an invalid text.
        ("08c379a0ff", "unknown", ("0x08c379a0ff",)),
        (selector("NoJob()"), "NoJob", ()),
        (selector("Empty()"), "Empty", ()),
        (
            selector("InvalidTransition(uint8,uint8)") + word("2") + word("5"),
            "InvalidTransition",
            ("2", "5"),
        ),
    ],
)
def test_errors_of_all_contracts_are_decoded(data, name, arguments):
    assert reason(bytes.fromhex(data)) == (name, arguments)
