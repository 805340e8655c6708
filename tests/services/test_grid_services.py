# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler, LDAP connector, user directories and registration, on fakes."""

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

US = "0x" + "11" * 20
OTHER = "0x" + "22" * 20
CUSTOMERS = ["0x" + c * 40 for c in "345"]


@dataclass
class FakeDirectory:
    """Port Directory."""

    accounts: dict[str, GridUser] = field(default_factory=dict)

    def ensure_users(self, addresses):
        created = tuple(address for address in addresses if address not in self.accounts)
        for address in created:
            self.accounts[address] = GridUser(
                address=address, uid=200_001 + len(self.accounts), gid=100_000
            )
        return created

    def users(self):
        return tuple(self.accounts.values())


@dataclass
class FakeStorage:
    """Port UserDirectories."""

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
    return MetaScheduler(
        ledger, Follower(ledger, MemoryCursor()), outbox or MemoryOutbox(), confirmations=2
    )


def test_a_pending_job_without_a_provider_waits_with_a_reason(ledger):
    service = meta_scheduler(ledger)
    job = ledger.request(CUSTOMERS[0])
    service.tick()

    assert "no provider" in service.pending()[job.id]
    assert service.matched() == {}


def test_a_job_whose_end_a_reorg_reverts_is_matched(ledger):
    ledger.add_provider(US)
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

    assert [entry.call.job_key for entry in outbox.open_entries()] == [job.job_key]


def test_a_pending_job_is_matched_once_a_provider_joins(ledger):
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    job = ledger.request(CUSTOMERS[0])
    service.tick()
    ledger.add_provider(US)
    ledger.mine()
    service.tick()
    ledger.deliver(outbox, US)
    service.tick()

    assert ledger.job(job.id.number).state is JobState.META_SCHEDULED
    assert service.matched() == {job.id: "META_SCHEDULED"}


def test_a_price_that_rises_after_the_choice_is_not_paid(ledger):
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    ledger.add_provider(US)
    job = ledger.request(CUSTOMERS[0])
    service.tick()
    ledger.add_provider(US, prices=Prices(gpu_per_min=0, cpu_per_min=10**18, memory_mb_per_min=0))
    ledger.deliver(outbox, US)

    assert ledger.job(job.id.number).state is JobState.PENDING


def test_a_provider_that_refused_is_not_chosen_again_even_after_a_restart(ledger):
    ledger.add_provider(US)
    job = ledger.request(CUSTOMERS[0])
    ledger.match(job.id.number, US)
    ledger.claim(US)
    ledger.refuse(job.id.number)
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    service.tick()

    assert outbox.open_entries() == ()
    assert "refused it" in service.pending()[job.id]


def test_a_refused_job_goes_to_another_provider(ledger):
    ledger.add_provider(US)
    ledger.add_provider(OTHER)
    job = ledger.request(CUSTOMERS[0])
    ledger.match(job.id.number, US)
    ledger.claim(US)
    ledger.refuse(job.id.number)
    outbox = MemoryOutbox()
    meta_scheduler(ledger, outbox).tick()

    assert [entry.call.provider for entry in outbox.open_entries()] == [OTHER]


def test_a_refusal_on_an_old_fork_does_not_affect_the_new_job_of_its_number(ledger):
    ledger.add_provider(US)
    lost = ledger.request(CUSTOMERS[0])
    ledger.match(lost.id.number, US)
    ledger.claim(US)
    ledger.refuse(lost.id.number)
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    service.tick()
    ledger.reorg(4)
    job = ledger.request(CUSTOMERS[1])
    service.tick()

    assert job.id == lost.id
    (entry,) = outbox.open_entries()
    assert (entry.call.job_key, entry.call.provider) == (job.job_key, US)


@pytest.mark.parametrize("script", ["../../etc/passwd", "a/b", "x" * 32, "é"])
def test_a_job_with_a_malformed_script_id_is_never_matched_nor_delays_others(ledger, script):
    ledger.add_provider(US)
    malformed, job = ledger.request(CUSTOMERS[0], script=script), ledger.request(CUSTOMERS[1])
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    service.tick()

    assert [entry.call.job_key for entry in outbox.open_entries()] == [job.job_key]
    assert service.pending()[malformed.id] == "the script id of the job is malformed"


def test_a_match_that_cannot_be_stored_does_not_delay_other_matches(ledger):
    class Outbox(MemoryOutbox):
        def put(self, key, call):
            if call.job_key == first.job_key:
                raise InvalidInput("cannot be stored")
            super().put(key, call)

    ledger.add_provider(US)
    first, second = ledger.request(CUSTOMERS[0]), ledger.request(CUSTOMERS[1])
    outbox = Outbox()
    service = meta_scheduler(ledger, outbox)
    service.tick()

    assert [entry.call.job_key for entry in outbox.open_entries()] == [second.job_key]
    assert service.pending()[first.id] == "cannot be stored"


def test_a_user_is_created_for_a_customer_that_requests_a_job(ledger):
    directory = FakeDirectory()
    connector = LdapConnector(ledger, Follower(ledger, MemoryCursor()), directory)
    connector.tick()
    ledger.request(CUSTOMERS[0])
    connector.tick()

    assert [user.address for user in directory.users()] == [CUSTOMERS[0]]


def test_users_that_the_directory_lost_are_created_again_at_the_start(ledger):
    directory, cursor = FakeDirectory(), MemoryCursor()
    for customer in CUSTOMERS:
        ledger.request(customer)
    LdapConnector(ledger, Follower(ledger, cursor), directory).tick()
    directory.accounts.clear()
    LdapConnector(ledger, Follower(ledger, cursor), directory).tick()

    assert {user.address for user in directory.users()} == set(CUSTOMERS)


def test_history_is_read_from_the_start_block(ledger):
    ledger.request(CUSTOMERS[0])
    start = ledger.head().number + 1
    ledger.request(CUSTOMERS[1])
    directory = FakeDirectory()
    LdapConnector(
        ledger, Follower(ledger, MemoryCursor(), start=start), directory, start=start
    ).tick()

    assert [user.address for user in directory.users()] == [CUSTOMERS[1]]


def test_only_wallets_in_range_get_directories():
    storage = FakeStorage()
    good = GridUser(address=CUSTOMERS[0], uid=200_001, gid=100_000)
    outsiders = [
        GridUser(address=CUSTOMERS[1], uid=0, gid=0),
        GridUser(address="root", uid=200_002, gid=100_000),
    ]
    directory = FakeDirectory({user.address: user for user in [good, *outsiders]})
    maker = UserDirectoryMaker(directory, storage, WalletRange(), clock=FakeClock())
    maker.tick()
    maker.tick()

    assert storage.created == [good]


def test_a_failure_for_one_user_does_not_affect_other_users():
    storage = FakeStorage(failing={CUSTOMERS[0]})
    directory, clock = FakeDirectory(), FakeClock()
    directory.ensure_users(CUSTOMERS)
    maker = UserDirectoryMaker(directory, storage, WalletRange(), clock=clock)
    with capture_logs() as lines:
        maker.tick()
        maker.tick()

        assert [user.address for user in storage.created] == CUSTOMERS[1:]
        assert storage.calls.count(CUSTOMERS[0]) == 1

        clock.advance(10)
        maker.tick()
        assert storage.calls.count(CUSTOMERS[0]) == 2

        storage.failing.clear()
        clock.advance(10)
        maker.tick()

    assert storage.created[-1].address == CUSTOMERS[0]
    failures = [line["user"] for line in lines if line["event"] == "directories_failed"]
    assert failures == [CUSTOMERS[0]]


def test_a_cluster_registers_once_and_again_when_it_changes(ledger):
    outbox, slurm = MemoryOutbox(), FakeScheduler(ledger.clock)
    terms = Terms(
        prices=Prices(gpu_per_min=1, cpu_per_min=2, memory_mb_per_min=3), labels={"zone": "lab"}
    )
    service = Registration(ledger, outbox, slurm, provider=US, terms=terms)
    service.tick()
    ledger.deliver(outbox, US)
    service.tick()
    assert outbox.open_entries() == ()

    raised = Terms(
        prices=Prices(gpu_per_min=1, cpu_per_min=9, memory_mb_per_min=3), labels={"zone": "lab"}
    )
    Registration(ledger, outbox, slurm, provider=US, terms=raised).tick()

    assert len(outbox.open_entries()) == 1
