# SPDX-License-Identifier: Apache-2.0
"""What people ask of the contracts, on a real chain."""

from __future__ import annotations

import pytest
from tests import billing_oracle
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.generations import on_both
from tests.devnet import COIN, wallet
from tests.fakes.ledger import SMALL
from tests.fakes.store import MemoryCursor

from gridstead.adapters.chain.account import ChainAccount
from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer, JobRequest
from gridstead.adapters.chain.direct import DirectSender
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.domain.calls import ClaimJobs
from gridstead.domain.job import Affinity, Label
from gridstead.domain.lifecycle import JobState
from gridstead.errors import ChainUnavailable, ConfigError, InvalidInput, TransactionReverted
from gridstead.services.follower import Follower


def request(**fields):
    return JobRequest(
        **({"resources": SMALL, "batch_location_hash": "script-1", "escrow": 200 * COIN} | fields)
    )


@pytest.fixture
def ledger(chain):
    return ChainLedger(chain.node, chain.contracts)


@pytest.fixture
def stranger(chain):
    """A customer with coins and no credits."""
    chain.anvil.fund(wallet(55).address)
    return Customer(chain.node, chain.contracts, wallet(55))


@on_both
def test_credits_are_counted_allowed_and_given(chain, stranger):
    chain.as_admin.transfer(stranger.address, 7)
    chain.as_admin.mint(stranger.address, 3)
    stranger.allow(5)

    assert (stranger.balance(), stranger.allowance()) == (10, 5)
    assert chain.as_admin.balance(stranger.address) == 10
    assert stranger.coins() > 0


@on_both
def test_constants_are_read(chain):
    assert (chain.as_customer.minimum_escrow(), chain.as_customer.fee_percent()) == (100 * COIN, 20)


@on_both
def test_mint_is_for_the_owner(chain, stranger):
    with pytest.raises(TransactionReverted, match="caller is not the owner"):
        stranger.mint(stranger.address, 1)


@on_both
def test_job_without_credits_is_refused_in_the_contracts_words(chain, stranger):
    stranger.allow(10**30)

    with pytest.raises(TransactionReverted, match="transfer amount exceeds balance"):
        stranger.request_job(request())


@on_both
def test_job_without_allowance_is_refused(chain, stranger):
    chain.as_admin.transfer(stranger.address, 10**21)

    with pytest.raises(TransactionReverted, match="insufficient allowance"):
        stranger.request_job(request())


@on_both
def test_job_and_the_leave_to_lock_are_asked_for_together_where_they_can_be(
    chain, stranger, expected
):
    chain.as_admin.transfer(stranger.address, 500 * COIN)
    before = sent(chain, stranger)

    first = stranger.submit_job(request())
    assert sent(chain, stranger) - before == expected.requests
    assert (stranger.allowance(), stranger.balance()) == (0, 300 * COIN)
    stranger.allow(200 * COIN)
    second = stranger.submit_job(request())
    assert sent(chain, stranger) - before == expected.requests + 2
    assert stranger.job_numbers() == (first, second)
    with pytest.raises(TransactionReverted, match="transfer amount exceeds balance"):
        stranger.submit_job(request())


def sent(chain, who):
    return int(chain.anvil.rpc("eth_getTransactionCount", who.address, "latest"), 16)


@on_both
def test_too_small_a_lock_is_refused_with_both_amounts(chain):
    with pytest.raises(TransactionReverted) as refusal:
        chain.as_customer.request_job(request(escrow=5))

    assert refusal.value.error_name == "InsufficientFunds"
    assert refusal.value.arguments == ("5", str(100 * COIN))


def test_too_long_a_name_is_refused_here(chain):
    with pytest.raises(InvalidInput, match="33 bytes"):
        chain.as_customer.request_job(request(name="x" * 33))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"batch_location_hash": "x" * 129}, "129 bytes"),
        ({"uses": (Label(key="x" * 65, value=""),)}, "65 bytes"),
        ({"affinity": (Affinity(key="", operator="==", value="x" * 65),)}, "65 bytes"),
        ({"uses": (Label(key="zone", value="lab"),) * 17}, "17 labels, at most 16"),
    ],
)
def test_more_words_than_the_contracts_take_are_refused_here(fields, told):
    with pytest.raises(InvalidInput, match=told):
        request(**fields)


@on_both
def test_as_many_words_as_the_contracts_take_are_taken(chain):
    longest = Label(key="x" * 64, value="x" * 64)

    assert (
        chain.as_customer.request_job(request(batch_location_hash="x" * 128, uses=(longest,) * 16))
        > 0
    )


@on_both
def test_jobs_are_listed_by_customer(chain):
    numbers = [chain.as_customer.request_job(request()) for _ in range(2)]

    assert chain.as_customer.job_numbers() == tuple(numbers)
    assert chain.as_customer.job_numbers(chain.admin.address) == ()


@on_both
def test_jobs_asked_for_at_once_are_numbered_in_order(chain, ledger):
    names = ["first", "second", "third"]

    numbers = chain.as_customer.request_jobs([request(name=name) for name in names])

    jobs = ledger.jobs(numbers, at_block=ledger.head())
    assert [jobs[number].name for number in numbers] == names


def test_name_that_is_too_long_asks_for_none_of_the_jobs_beside_it(chain):
    with pytest.raises(InvalidInput, match="33 bytes"):
        chain.as_customer.request_jobs([request(), request(name="x" * 33)])

    assert chain.as_customer.job_numbers() == ()


@on_both
def test_bare_equals_sign_is_the_operator_of_equality(chain, ledger):
    affinity = (
        Affinity(key="a", operator="=", value="b"),
        Affinity(key="a", operator="in", value="c"),
    )
    number = chain.as_customer.request_job(request(affinity=affinity))

    found = ledger.jobs([number], at_block=ledger.head())[number].affinity
    assert found == (
        Affinity(key="a", operator="==", value="b"),
        Affinity(key="a", operator="in", value="c"),
    )


@on_both
def test_text_that_is_no_text_spoils_nothing(chain, ledger):
    """Anybody can store bytes that are not UTF-8; the others' jobs must stay readable."""
    good = chain.as_customer.request_job(request())
    contract = chain.contracts.meta_scheduler
    definition = (0, 1, 1, 1, "XXXX", 0, [("XXXX", "XXXX")], [])
    data = contract.data("requestNewJob", definition, 200 * COIN, b"\xff" * 32, False)
    data = data.replace(b"XXXX".hex(), "fffefdfc")
    DirectSender(chain.node, chain.customer).transact(contract.address, data, name="requestNewJob")

    jobs = ledger.jobs([good, good + 1], at_block=ledger.head())

    assert jobs[good].batch_location_hash == "script-1"
    assert jobs[good + 1].batch_location_hash == "\ufffd" * 4
    assert jobs[good + 1].uses == (Label(key="\ufffd" * 4, value="\ufffd" * 4),)


@on_both
def test_job_history_tell_times_and_money(chain, expected):
    grid = RealGrid(chain)
    grid.register()
    grid.approve()
    number = grid.request("script-1")
    grid.match(number)
    grid.claim()
    start = grid.ledger.head().timestamp
    grid.run(number, start)
    grid.pass_time(100)
    grid.settle(number, JobState.FINISHED, seconds=61)
    job = grid.ledger.jobs([number], at_block=grid.ledger.head())[number]

    told = chain.as_customer.job_history(number)

    assert [one.event for one in told] == [
        "JobRequested",
        "JobMatched",
        "JobClaimed",
        "JobStarted",
        "JobSettled",
    ]
    assert [one.occurred_at for one in told] == sorted(one.occurred_at for one in told)
    assert told[3].numbers["startTime"] in {start, start + 1}
    assert told[4].numbers["status"] == JobState.FINISHED
    cost = billing_oracle.cost(expected.billed_s(61), job.price_per_min)
    assert told[4].numbers["cost"] == job.final_cost == cost
    if expected.own_events:
        assert (told[0].numbers["locked"], told[4].numbers["billedSeconds"]) == (200 * COIN, 61)


@on_both
def test_job_history_tell_a_job_that_came_back_and_was_given_up(chain, expected):
    grid = RealGrid(chain)
    grid.register()
    grid.approve()
    other, number = grid.request("script-1"), grid.request("script-2", escrow=100 * COIN)
    grid.match(number)
    grid.claim()
    grid.refuse(number)
    grid.cancel(number)
    grid.cancel(other)

    told = [
        one for one in chain.as_customer.job_history(number) if one.event != "JobCancelRequested"
    ]

    lived = ["JobRequested", "JobMatched", "JobClaimed", "JobUnmatched", "JobRefunded"]
    assert [one.event for one in told] == lived
    assert told[-1].numbers == {"status": JobState.CANCELLED, "amount": 100 * COIN}


@on_both
def test_every_wallet_that_asked_to_be_a_provider_is_listed(chain):
    grid = RealGrid(chain)
    grid.register()
    grid.register()

    assert chain.as_customer.provider_addresses() == (chain.provider.address,)
    chain.as_admin.approve_provider(chain.provider.address)
    chain.as_admin.remove_provider(chain.provider.address)
    assert chain.as_customer.provider_addresses() == (chain.provider.address,)


def test_address_without_contracts_is_the_operators_matter(chain):
    for address in ("0x" + "12" * 20, chain.contracts.credit.address):
        with pytest.raises(ConfigError, match="cannot find the grid's contracts"):
            find_contracts(chain.node, address)


@on_both
def test_fees_and_gas_are_asked_of_the_node(chain, provider_account):
    fees = provider_account.fees()

    assert 0 < fees.tip < fees.max_fee
    transfer, claim = provider_account.gas([(), [ClaimJobs(limit=1)]], room=30_000_000)
    assert transfer == 21_000
    assert isinstance(claim, TransactionReverted)
    assert "ProviderNotJoined" in str(claim)


@on_both
def test_nonce_is_pinned_to_a_block(chain, ledger):
    account = ChainAccount(chain.node, chain.contracts, chain.customer)
    before = ledger.head()
    nonce = account.nonce(at_block=before)
    chain.as_customer.allow(1)

    assert account.nonce(at_block=before) == nonce
    assert account.nonce(at_block=ledger.head()) == nonce + 1


@on_both
def test_follower_reads_a_real_chain_through_a_reorg(chain, ledger):
    cursor, given = MemoryCursor(), []

    def take(events):
        given.extend(event.job_number for event in events)

    follower = Follower(ledger, cursor, start=ledger.head().number)
    chain.as_customer.request_job(request())
    follower.tick(take)
    chain.as_customer.request_job(request())
    follower.tick(take)
    chain.anvil.reorg(1)
    follower.tick(take)
    chain.as_customer.request_job(request())
    follower.tick(take)

    assert given == [1, 2, 2]
    assert cursor.load() == ledger.head()


def test_dead_endpoint_and_strange_answers_are_the_chains_absence(chain):
    url = chain.node._url
    for broken in ("http://127.0.0.1:9", f"{url}/nothing-here?%zz"):
        chain.node._url = broken
        with pytest.raises(ChainUnavailable):
            chain.node.ask("eth_noSuchMethod")
    chain.node._url = url
    with pytest.raises(ChainUnavailable, match="eth_noSuchMethod"):
        chain.node.ask("eth_noSuchMethod")
