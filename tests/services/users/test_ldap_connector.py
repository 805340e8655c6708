# SPDX-License-Identifier: Apache-2.0
"""Tests that the LDAP connector creates a user for each customer."""

import pytest
from tests.fakes.ledger import FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor
from tests.fakes.users import FakeDirectory

from gridstead.services.chain.follower import Follower
from gridstead.services.users.ldap_connector import LdapConnector

CUSTOMERS = ["0x" + "33" * 20, "0x" + "44" * 20, "0x" + "55" * 20]


@pytest.fixture
def ledger():
    return FakeLedger(FakeClock())


def addresses_of(users):
    return [user.address for user in users]


def test_user_is_created_for_a_customer_that_requests_a_job(ledger):
    directory = FakeDirectory()
    connector = LdapConnector(ledger, Follower(ledger, MemoryCursor()), directory)
    connector.tick()

    ledger.request(CUSTOMERS[0])
    connector.tick()

    assert addresses_of(directory.users()) == [CUSTOMERS[0]]


def test_restarted_connector_creates_lost_users_again(ledger):
    directory = FakeDirectory()
    cursor = MemoryCursor()
    for customer in CUSTOMERS:
        ledger.request(customer)
    LdapConnector(ledger, Follower(ledger, cursor), directory).tick()
    directory.accounts.clear()

    restarted_connector = LdapConnector(ledger, Follower(ledger, cursor), directory)
    restarted_connector.tick()

    assert set(addresses_of(directory.users())) == set(CUSTOMERS)


def test_connector_reads_the_history_from_the_start_block(ledger):
    ledger.request(CUSTOMERS[0])
    start = ledger.head().number + 1
    ledger.request(CUSTOMERS[1])
    directory = FakeDirectory()
    follower = Follower(ledger, MemoryCursor(), first_block=start)

    LdapConnector(ledger, follower, directory, first_block=start).tick()

    assert addresses_of(directory.users()) == [CUSTOMERS[1]]
