# SPDX-License-Identifier: Apache-2.0
"""Meta-scheduler, LDAP connector, user directories and registration, on fakes."""

from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock, MemoryCursor, MemoryOutbox

from gridstead.domain.accounts import WalletRange
from gridstead.domain.billing import Prices
from gridstead.domain.lifecycle import JobState
from gridstead.domain.offers import Terms
from gridstead.domain.submission import GridUser
from gridstead.errors import ConfigError, InvalidInput
from gridstead.services.follower import Follower
from gridstead.services.ldap_connector import LdapConnector
from gridstead.services.meta_scheduler import MetaScheduler
from gridstead.services.registration import Registration
from gridstead.services.user_directories import UserDirectoryMaker

US = "0x" + "11" * 20
OTHER = "0x" + "22" * 20
CUSTOMERS = ["0x" + c * 40 for c in "345"]


@dataclass
class FakeDirectory:
    """Port Directory."""

    accounts: dict[str, GridUser] = field(default_factory=dict)

    def ensure_users(self, addresses):
        made = tuple(a for a in addresses if a not in self.accounts)
        for address in made:
            self.accounts[address] = GridUser(
                address=address, uid=200_001 + len(self.accounts), gid=100_000
            )
        return made

    def users(self):
        return tuple(self.accounts.values())


@dataclass
class FakeStorage:
    """Port UserDirectories."""

    made: list[GridUser] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def ensure(self, user):
        self.asked.append(user.address)
        if user.address in self.taken:
            raise ConfigError(f"cannot make a home for {user.address}")
        self.made.append(user)
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

    assert "no provider" in service.pending()[job.id.slurm_name]
    assert service.matched() == {}


def test_a_job_whose_end_a_reorg_undid_is_matched(ledger):
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
    assert service.matched() == {job.id.slurm_name: "META_SCHEDULED"}


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
    assert "refused it" in service.pending()[job.id.slurm_name]


def test_another_provider_takes_what_one_refused(ledger):
    ledger.add_provider(US)
    ledger.add_provider(OTHER)
    job = ledger.request(CUSTOMERS[0])
    ledger.match(job.id.number, US)
    ledger.claim(US)
    ledger.refuse(job.id.number)
    outbox = MemoryOutbox()
    meta_scheduler(ledger, outbox).tick()

    assert [entry.call.provider for entry in outbox.open_entries()] == [OTHER]


def test_a_refusal_on_a_lost_fork_does_not_stick_to_the_next_owner_of_the_number(ledger):
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
    assert [(entry.call.job_key, entry.call.provider) for entry in outbox.open_entries()] == [
        (job.job_key, US)
    ]


@pytest.mark.parametrize("script", ["../../etc/passwd", "a/b", "x" * 32, "é"])
def test_a_job_without_a_proper_script_id_is_never_matched_and_keeps_no_other_back(ledger, script):
    ledger.add_provider(US)
    malformed, job = ledger.request(CUSTOMERS[0], script=script), ledger.request(CUSTOMERS[1])
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    service.tick()

    assert [entry.call.job_key for entry in outbox.open_entries()] == [job.job_key]
    assert service.pending()[malformed.id.slurm_name] == "the id of its script is malformed"


def test_a_match_that_cannot_be_stored_keeps_no_other_back(ledger):
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
    assert service.pending()[first.id.slurm_name] == "cannot be stored"


def test_a_customer_becomes_a_user_when_it_asks(ledger):
    directory = FakeDirectory()
    connector = LdapConnector(ledger, Follower(ledger, MemoryCursor()), directory)
    connector.tick()
    ledger.request(CUSTOMERS[0])
    connector.tick()

    assert [user.address for user in directory.users()] == [CUSTOMERS[0]]


def test_users_that_the_directory_lost_are_made_again_at_the_start(ledger):
    directory, cursor = FakeDirectory(), MemoryCursor()
    for customer in CUSTOMERS:
        ledger.request(customer)
    LdapConnector(ledger, Follower(ledger, cursor), directory).tick()
    directory.accounts.clear()
    LdapConnector(ledger, Follower(ledger, cursor), directory).tick()

    assert {user.address for user in directory.users()} == set(CUSTOMERS)


def test_history_is_read_from_its_first_block(ledger):
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
    strangers = [
        GridUser(address=CUSTOMERS[1], uid=0, gid=0),
        GridUser(address="root", uid=200_002, gid=100_000),
    ]
    directory = FakeDirectory({user.address: user for user in [good, *strangers]})
    maker = UserDirectoryMaker(directory, storage, WalletRange(), clock=FakeClock())
    maker.tick()
    maker.tick()

    assert storage.made == [good]


def test_one_users_bad_directory_keeps_no_other_out():
    storage = FakeStorage(taken={CUSTOMERS[0]})
    directory, clock = FakeDirectory(), FakeClock()
    directory.ensure_users(CUSTOMERS)
    maker = UserDirectoryMaker(directory, storage, WalletRange(), clock=clock)
    with capture_logs() as lines:
        maker.tick()
        maker.tick()

        assert [user.address for user in storage.made] == CUSTOMERS[1:]
        assert storage.asked.count(CUSTOMERS[0]) == 1

        clock.advance(10)
        maker.tick()
        assert storage.asked.count(CUSTOMERS[0]) == 2

        storage.taken.clear()
        clock.advance(10)
        maker.tick()

    assert storage.made[-1].address == CUSTOMERS[0]
    assert [line["user"] for line in lines if line["event"] == "directories_failed"] == [
        CUSTOMERS[0]
    ]


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

    dearer = Terms(
        prices=Prices(gpu_per_min=1, cpu_per_min=9, memory_mb_per_min=3), labels={"zone": "lab"}
    )
    Registration(ledger, outbox, slurm, provider=US, terms=dearer).tick()

    assert len(outbox.open_entries()) == 1
