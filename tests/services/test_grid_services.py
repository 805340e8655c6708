# SPDX-License-Identifier: Apache-2.0
"""Tests of the meta-scheduler, LDAP connector, user directories and registration, on fakes."""

from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock, MemoryCursor, MemoryOutbox

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.offers import Terms
from gridstead.domain.supervisor.submission import GridUser
from gridstead.domain.users.accounts import WalletRange
from gridstead.errors import ConfigError, InvalidInput
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.supervisor.registration import Registration
from gridstead.services.users.ldap_connector import LdapConnector
from gridstead.services.users.user_directories import UserDirectoryMaker

PROVIDER = "0x" + "11" * 20
OTHER_PROVIDER = "0x" + "22" * 20
CUSTOMERS = ["0x" + "33" * 20, "0x" + "44" * 20, "0x" + "55" * 20]


@dataclass
class FakeDirectory:
    """Implements the port Directory in memory."""

    accounts: dict[str, GridUser] = field(default_factory=dict)

    def ensure_users(self, addresses):
        created = tuple(address for address in addresses if address not in self.accounts)
        for address in created:
            uid = 200_001 + len(self.accounts)
            self.accounts[address] = GridUser(address=address, uid=uid, gid=100_000)
        return created

    def users(self):
        return tuple(self.accounts.values())


@dataclass
class FakeStorage:
    """Implements the port UserDirectories. It fails for the addresses in ``failing``."""

    created: list[GridUser] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)

    def ensure(self, user):
        self.calls.append(user.address)
        if user.address in self.failing:
            raise ConfigError(f"cannot create a home for {user.address}")
        self.created.append(user)
        return True


@pytest.fixture
def ledger():
    return FakeLedger(FakeClock())


def meta_scheduler(ledger, outbox=None):
    follower = Follower(ledger, MemoryCursor())
    return MetaScheduler(ledger, follower, outbox or MemoryOutbox(), confirmations=2)


def open_calls(outbox):
    return [entry.call for entry in outbox.open_entries()]


def addresses_of(users):
    return [user.address for user in users]


@pytest.fixture
def refused_job(ledger):
    """Return a job that was matched with PROVIDER, and that PROVIDER claimed and then refused."""
    ledger.add_provider(PROVIDER)
    job = ledger.request(CUSTOMERS[0])
    ledger.match(job.id.number, PROVIDER)
    ledger.claim(PROVIDER)
    ledger.refuse(job.id.number)
    return job


def test_pending_job_without_a_provider_has_a_reason(ledger):
    service = meta_scheduler(ledger)
    job = ledger.request(CUSTOMERS[0])

    service.tick()

    assert "no provider" in service.pending()[job.id]
    assert service.matched() == {}


def test_job_is_matched_if_a_reorg_reverts_its_end(ledger):
    ledger.add_provider(PROVIDER)
    job = ledger.request(CUSTOMERS[0])
    ledger.cancel(job.id.number)
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    service.tick()
    ledger.mine()
    service.tick()
    assert outbox.entries() == ()

    ledger.reorg(2)
    assert ledger.job(job.id.number).state is JobState.PENDING
    service.tick()

    (match,) = open_calls(outbox)
    assert match.job_key == job.job_key


def test_pending_job_is_matched_after_a_provider_joins(ledger):
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    job = ledger.request(CUSTOMERS[0])
    service.tick()

    ledger.add_provider(PROVIDER)
    ledger.mine()
    service.tick()
    ledger.deliver(outbox, PROVIDER)
    service.tick()

    assert ledger.job(job.id.number).state is JobState.META_SCHEDULED
    assert service.matched() == {job.id: "META_SCHEDULED"}


def test_match_fails_if_the_price_rises_before_it_is_mined(ledger):
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    ledger.add_provider(PROVIDER)
    job = ledger.request(CUSTOMERS[0])
    service.tick()

    high_prices = Prices(gpu_per_min=0, cpu_per_min=10**18, memory_mb_per_min=0)
    ledger.add_provider(PROVIDER, prices=high_prices)
    ledger.deliver(outbox, PROVIDER)

    assert ledger.job(job.id.number).state is JobState.PENDING


def test_job_is_not_matched_again_with_a_provider_that_refused_it(ledger, refused_job):
    outbox = MemoryOutbox()
    restarted_service = meta_scheduler(ledger, outbox)

    restarted_service.tick()

    assert outbox.open_entries() == ()
    assert "refused it" in restarted_service.pending()[refused_job.id]


def test_refused_job_is_matched_with_another_provider(ledger, refused_job):
    ledger.add_provider(OTHER_PROVIDER)
    outbox = MemoryOutbox()

    meta_scheduler(ledger, outbox).tick()

    (match,) = open_calls(outbox)
    assert match.provider == OTHER_PROVIDER


def test_refusal_on_an_old_fork_does_not_affect_a_new_job_with_the_same_number(ledger, refused_job):
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    service.tick()

    ledger.reorg(4)
    new_job = ledger.request(CUSTOMERS[1])
    service.tick()

    assert new_job.id == refused_job.id
    (match,) = open_calls(outbox)
    assert match.job_key == new_job.job_key
    assert match.provider == PROVIDER


@pytest.mark.parametrize("script", ["../../etc/passwd", "a/b", "x" * 32, "é"])
def test_job_with_a_malformed_script_id_is_not_matched(ledger, script):
    ledger.add_provider(PROVIDER)
    malformed_job = ledger.request(CUSTOMERS[0], script=script)
    valid_job = ledger.request(CUSTOMERS[1])
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)

    service.tick()

    (match,) = open_calls(outbox)
    assert match.job_key == valid_job.job_key
    assert service.pending()[malformed_job.id] == "the script id of the job is malformed"


def test_match_that_cannot_be_stored_does_not_delay_other_matches(ledger):
    class OutboxThatRefusesFirstJob(MemoryOutbox):
        def put(self, key, call):
            if call.job_key == first_job.job_key:
                raise InvalidInput("cannot be stored")
            super().put(key, call)

    ledger.add_provider(PROVIDER)
    first_job = ledger.request(CUSTOMERS[0])
    second_job = ledger.request(CUSTOMERS[1])
    outbox = OutboxThatRefusesFirstJob()
    service = meta_scheduler(ledger, outbox)

    service.tick()

    (match,) = open_calls(outbox)
    assert match.job_key == second_job.job_key
    assert service.pending()[first_job.id] == "cannot be stored"


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
    follower = Follower(ledger, MemoryCursor(), start=start)

    LdapConnector(ledger, follower, directory, start=start).tick()

    assert addresses_of(directory.users()) == [CUSTOMERS[1]]


def test_users_that_are_not_wallet_users_get_no_directories():
    storage = FakeStorage()
    wallet_user = GridUser(address=CUSTOMERS[0], uid=200_001, gid=100_000)
    uid_out_of_range = GridUser(address=CUSTOMERS[1], uid=0, gid=0)
    name_without_address = GridUser(address="root", uid=200_002, gid=100_000)
    users = (wallet_user, uid_out_of_range, name_without_address)
    directory = FakeDirectory({user.address: user for user in users})
    maker = UserDirectoryMaker(directory, storage, WalletRange(), clock=FakeClock())
    maker.tick()
    maker.tick()

    assert storage.created == [wallet_user]


@dataclass
class DirectorySetup:
    """A maker of user directories for three users. Its storage fails for the first user."""

    storage: FakeStorage
    clock: FakeClock
    maker: UserDirectoryMaker


@pytest.fixture
def directory_setup():
    storage = FakeStorage(failing={CUSTOMERS[0]})
    clock = FakeClock()
    directory = FakeDirectory()
    directory.ensure_users(CUSTOMERS)
    maker = UserDirectoryMaker(directory, storage, WalletRange(), clock=clock)
    return DirectorySetup(storage=storage, clock=clock, maker=maker)


def test_failure_for_one_user_does_not_affect_other_users(directory_setup):
    directory_setup.maker.tick()

    assert addresses_of(directory_setup.storage.created) == CUSTOMERS[1:]


def test_failed_user_is_retried_after_10_seconds(directory_setup):
    storage = directory_setup.storage
    directory_setup.maker.tick()
    directory_setup.maker.tick()
    assert storage.calls.count(CUSTOMERS[0]) == 1

    directory_setup.clock.advance(10)
    directory_setup.maker.tick()
    assert storage.calls.count(CUSTOMERS[0]) == 2

    storage.failing.clear()
    directory_setup.clock.advance(10)
    directory_setup.maker.tick()
    assert storage.created[-1].address == CUSTOMERS[0]


def test_failed_user_is_retried_after_the_clock_was_set_back(directory_setup):
    storage = directory_setup.storage
    directory_setup.maker.tick()
    directory_setup.clock.advance(-3600)
    directory_setup.maker.tick()

    assert storage.calls.count(CUSTOMERS[0]) == 2


def test_repeated_failure_of_a_user_is_logged_once(directory_setup):
    with capture_logs() as lines:
        directory_setup.maker.tick()
        directory_setup.clock.advance(10)
        directory_setup.maker.tick()

    failures = [line["user"] for line in lines if line["event"] == "directories_failed"]
    assert failures == [CUSTOMERS[0]]


def terms(cpu_per_min):
    """Return the terms of a provider with this price of a CPU."""
    prices = Prices(gpu_per_min=1, cpu_per_min=cpu_per_min, memory_mb_per_min=3)
    return Terms(prices=prices, labels={"zone": "lab"})


def test_cluster_is_registered_again_after_a_change_and_not_otherwise(ledger):
    outbox = MemoryOutbox()
    slurm = FakeScheduler(ledger.clock)
    service = Registration(ledger, outbox, slurm, provider=PROVIDER, terms=terms(cpu_per_min=2))
    service.tick()
    ledger.deliver(outbox, PROVIDER)
    service.tick()
    assert outbox.open_entries() == ()

    changed_terms = terms(cpu_per_min=9)
    Registration(ledger, outbox, slurm, provider=PROVIDER, terms=changed_terms).tick()

    assert len(outbox.open_entries()) == 1
