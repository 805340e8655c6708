# SPDX-License-Identifier: Apache-2.0
"""Tests of the accounts of customers: the wallet range, and the accounts to create."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import CUSTOMER, OTHER_ADDRESS, PROVIDER, job_id

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.supervisor.submission import GridUser
from gridstead.domain.users.accounts import WalletIdRange, addresses_without_account, customers


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
def test_account_without_the_name_uid_or_gid_of_a_wallet_is_not_in_the_range(account):
    assert not WalletIdRange().contains(account)


@pytest.mark.parametrize("uid", [200_001, 999_999])
def test_wallet_range_includes_both_ends(uid):
    assert WalletIdRange().contains(user(uid=uid))


def test_customers_are_the_wallets_that_requested_a_job():
    requested_event = ChainEvent(
        kind=ChainEventKind.JOB_REQUESTED, block=1, index=0, job_id=job_id(1), customer=CUSTOMER
    )
    claimed_event = replace(
        requested_event, kind=ChainEventKind.JOB_CLAIMED, customer=OTHER_ADDRESS
    )
    malformed_event = replace(requested_event, customer="0x1")

    assert customers([requested_event, claimed_event, malformed_event]) == {CUSTOMER}


def test_missing_accounts_are_unique_and_sorted():
    assert addresses_without_account(
        [CUSTOMER, PROVIDER, CUSTOMER, OTHER_ADDRESS], [user(OTHER_ADDRESS)]
    ) == (
        PROVIDER,
        CUSTOMER,
    )
