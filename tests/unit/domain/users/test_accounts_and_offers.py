# SPDX-License-Identifier: Apache-2.0
"""Tests of the accounts of customers, the submission gate, and the offer of a provider."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import CUSTOMER, OTHER_ADDRESS, PROVIDER, job_id

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware, Provider
from gridstead.domain.supervisor.offers import Terms, must_register, offer, sanitise
from gridstead.domain.supervisor.submission import Gate, GridUser
from gridstead.domain.users.accounts import WalletRange, customers, missing

HARDWARE = Hardware(gpus_per_node=(0,), cpus_per_node=(4,), memory_per_node_mb=(1000,))
PRICES = Prices(gpu_per_min=1, cpu_per_min=2, memory_mb_per_min=3)
TERMS = Terms(prices=PRICES, labels={"zone": "Lab!", "arch": "amd64"})


def user(address=CUSTOMER, uid=200_001, gid=100_000):
    return GridUser(address=address, uid=uid, gid=gid)


@pytest.mark.parametrize(
    "account",
    [
        user("root"),
        user("0x" + "AB" * 20),
        user(uid=0),
        user(uid=200_000),
        user(uid=1_000_000),
        user(gid=0),
    ],
)
def test_wallet_range_holds_no_account_with_another_name_uid_or_gid(account):
    assert not WalletRange().holds(account)


@pytest.mark.parametrize("uid", [200_001, 999_999])
def test_wallet_range_includes_both_ends(uid):
    assert WalletRange().holds(user(uid=uid))


def test_customers_are_the_wallets_that_requested_a_job():
    requested = ChainEvent(
        kind=ChainEventKind.JOB_REQUESTED, block=1, index=0, job_id=job_id(1), customer=CUSTOMER
    )
    claimed = replace(requested, kind=ChainEventKind.JOB_CLAIMED, customer=OTHER_ADDRESS)
    malformed = replace(requested, customer="0x1")

    assert customers([requested, claimed, malformed]) == {CUSTOMER}


def test_missing_accounts_are_unique_and_sorted():
    assert missing([CUSTOMER, PROVIDER, CUSTOMER, OTHER_ADDRESS], [user(OTHER_ADDRESS)]) == (
        PROVIDER,
        CUSTOMER,
    )


@pytest.mark.parametrize(
    ("text", "sanitised"),
    [
        ("my_invalid-label123!", "my_invalid-label123"),
        ("validLabel123", "validlabel123"),
        (".a@b#c$d%e^f&g.f", ".a-b-c-d-e-f-g.f"),
    ],
)
def test_labels_are_sanitised_as_the_grid_sanitises_them(text, sanitised):
    assert sanitise(text) == sanitised


def test_labels_of_an_offer_are_sorted_by_key():
    labels = offer(HARDWARE, TERMS).labels

    assert [(label.key, label.value) for label in labels] == [("arch", "amd64"), ("zone", "lab")]


def test_provider_registers_unless_a_record_on_the_chain_equals_its_offer():
    our_offer = offer(HARDWARE, TERMS)
    equal_record = Provider(
        address=PROVIDER, hardware=HARDWARE, prices=PRICES, labels=our_offer.labels, is_joined=True
    )
    different_record = replace(equal_record, prices=replace(PRICES, cpu_per_min=9))

    assert must_register(our_offer, None, None)
    assert must_register(our_offer, different_record, None)
    assert not must_register(our_offer, equal_record, None)
    assert not must_register(our_offer, different_record, equal_record)


@pytest.mark.parametrize(
    ("gate", "is_open"),
    [
        (Gate(user=None, missing=()), False),
        (Gate(user=user(), missing=("home directory",)), False),
        (Gate(user=user(), missing=()), True),
    ],
)
def test_gate_is_open_if_the_user_exists_and_nothing_is_missing(gate, is_open):
    assert gate.is_open == is_open


@pytest.mark.parametrize("cpus", [(), (4,), (4, 8, 16)])
def test_hardware_has_one_node_per_list_entry(cpus):
    hardware = Hardware(gpus_per_node=(0,) * len(cpus), cpus_per_node=cpus, memory_per_node_mb=cpus)

    assert hardware.node_count == len(cpus)
