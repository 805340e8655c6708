# SPDX-License-Identifier: Apache-2.0
"""The contracts' functions for customers, and reads of the chain, on a real chain."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests import billing_oracle
from tests.adapters.chain.generations import on_all
from tests.adapters.chain.grids import RealGrid, join_real_grid
from tests.devnet import COIN, wallet
from tests.fakes.ledger import SMALL
from tests.fakes.store import MemoryCursor

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer, JobRequest
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import Node
from gridstead.adapters.transactions.account import ChainAccount
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.jobs.job import Affinity, Label
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs
from gridstead.errors import ChainUnavailable, ConfigError, InvalidInput, TransactionReverted
from gridstead.services.chain.follower import Follower


def request(**fields):
    """Return a valid job request. ``fields`` replaces default values."""
    defaults = {"resources": SMALL, "batch_location_hash": "script-1", "escrow": 200 * COIN}
    return JobRequest(**(defaults | fields))


@pytest.fixture
def ledger(chain):
    return ChainLedger(chain.node, chain.contracts)


@pytest.fixture
def outsider(chain):
    """A customer with coins and no credits."""
    chain.anvil.fund(wallet(55).address)
    return Customer(chain.node, chain.contracts, wallet(55))


@on_all
def test_credits_are_transferred_minted_and_allowed(chain, outsider):
    chain.as_admin.transfer(outsider.address, 7)
    chain.as_admin.mint(outsider.address, 3)
    outsider.allow(5)

    assert (outsider.balance(), outsider.allowance()) == (10, 5)
    assert chain.as_admin.balance(outsider.address) == 10
    assert outsider.coins() > 0


@on_all
def test_constants_are_read(chain):
    assert (chain.as_customer.minimum_escrow(), chain.as_customer.fee_percent()) == (100 * COIN, 20)


@on_all
def test_only_the_owner_mints(chain, outsider):
    with pytest.raises(TransactionReverted, match="caller is not the owner"):
        outsider.mint(outsider.address, 1)


@on_all
def test_job_of_a_customer_without_credits_is_refused_by_the_contract(chain, outsider):
    outsider.allow(10**30)

    with pytest.raises(TransactionReverted, match="transfer amount exceeds balance"):
        outsider.request_job(request())


@on_all
def test_job_without_allowance_is_refused(chain, outsider):
    chain.as_admin.transfer(outsider.address, 10**21)

    with pytest.raises(TransactionReverted, match="insufficient allowance"):
        outsider.request_job(request())


@on_all
def test_job_takes_one_transaction_if_the_contracts_support_permits(chain, outsider, expected):
    chain.as_admin.transfer(outsider.address, 500 * COIN)
    before = transaction_count(chain, outsider)

    first = outsider.submit_job(request())
    assert transaction_count(chain, outsider) - before == expected.request_transactions
    assert (outsider.allowance(), outsider.balance()) == (0, 300 * COIN)
    outsider.allow(200 * COIN)
    second = outsider.submit_job(request())  # the allowance is high enough, so no permit
    # One more transaction set the allowance, and one requested the second job.
    assert transaction_count(chain, outsider) - before == expected.request_transactions + 2
    assert outsider.job_numbers() == (first, second)
    with pytest.raises(TransactionReverted, match="transfer amount exceeds balance"):
        outsider.submit_job(request())


def transaction_count(chain, customer):
    """Return how many mined transactions the customer has sent."""
    return int(chain.anvil.rpc("eth_getTransactionCount", customer.address, "latest"), 16)


@on_all
def test_refusal_of_a_low_escrow_states_the_escrow_and_the_minimum(chain):
    with pytest.raises(TransactionReverted) as refusal:
        chain.as_customer.request_job(request(escrow=5))

    assert refusal.value.error_name == "InsufficientFunds"
    assert refusal.value.arguments == ("5", str(100 * COIN))


def test_name_that_is_too_long_is_refused_locally(chain):
    with pytest.raises(InvalidInput, match="33 bytes"):
        chain.as_customer.request_job(request(name="x" * 33))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"batch_location_hash": "x" * 129}, "129 bytes"),
        ({"uses": (Label(key="x" * 65, value=""),)}, "65 bytes"),
        ({"affinity": (Affinity(key="", operator="==", value="x" * 65),)}, "65 bytes"),
        ({"uses": (Label(key="zone", value="lab"),) * 17}, "17 labels, at most 16"),
    ],
)
def test_text_above_a_limit_of_the_contracts_is_refused_locally(fields, expected):
    with pytest.raises(InvalidInput, match=expected):
        request(**fields)


@on_all
def test_text_at_the_limits_of_the_contracts_is_accepted(chain):
    longest = Label(key="x" * 64, value="x" * 64)

    largest = request(batch_location_hash="x" * 128, uses=(longest,) * 16)
    assert chain.as_customer.request_job(largest) > 0


@on_all
def test_jobs_are_listed_by_customer(chain):
    first = chain.as_customer.request_job(request())
    second = chain.as_customer.request_job(request())

    assert chain.as_customer.job_numbers() == (first, second)
    assert chain.as_customer.job_numbers(chain.admin.address) == ()


@on_all
def test_jobs_requested_together_are_numbered_in_order(chain, ledger):
    first, second = chain.as_customer.request_jobs([request(name="first"), request(name="second")])

    assert second == first + 1
    job_ids = [chain.contracts.job_id(first), chain.contracts.job_id(second)]
    jobs = ledger.jobs(job_ids, at_block=ledger.head())
    assert jobs[job_ids[0]].name == "first"
    assert jobs[job_ids[1]].name == "second"


def test_no_job_is_requested_if_one_name_is_invalid(chain):
    with pytest.raises(InvalidInput, match="33 bytes"):
        chain.as_customer.request_jobs([request(), request(name="x" * 33)])

    assert chain.as_customer.job_numbers() == ()


@on_all
def test_affinity_operator_with_one_equals_sign_is_stored_with_two(chain, ledger):
    affinity = (
        Affinity(key="a", operator="=", value="b"),
        Affinity(key="a", operator="in", value="c"),
    )
    job_id = chain.contracts.job_id(chain.as_customer.request_job(request(affinity=affinity)))

    affinity_read = ledger.jobs([job_id], at_block=ledger.head())[job_id].affinity
    assert affinity_read == (
        Affinity(key="a", operator="==", value="b"),
        Affinity(key="a", operator="in", value="c"),
    )


@on_all
def test_bytes_that_are_not_utf8_do_not_affect_other_jobs(chain, ledger):
    """Any account can store bytes that are not UTF-8; the other jobs must remain readable."""
    valid = chain.as_customer.request_job(request())
    contract = chain.contracts.meta_scheduler
    # A JobDefinition of Types.sol. Its texts are replaced below.
    definition = (0, 1, 1, 1, "XXXX", 0, [("XXXX", "XXXX")], [])
    data = contract.data("requestNewJob", definition, 200 * COIN, b"\xff" * 32, False)
    # The ABI encoder accepts only valid text, so the bytes are replaced in the encoded call.
    data = data.replace(b"XXXX".hex(), "fffefdfc")
    DirectSender(chain.node, chain.customer).transact(contract.address, data, name="requestNewJob")

    valid_id = chain.contracts.job_id(valid)
    invalid_id = chain.contracts.job_id(valid + 1)
    jobs = ledger.jobs([valid_id, invalid_id], at_block=ledger.head())

    assert jobs[valid_id].batch_location_hash == "script-1"
    assert jobs[invalid_id].batch_location_hash == "\ufffd" * 4
    assert jobs[invalid_id].uses == (Label(key="\ufffd" * 4, value="\ufffd" * 4),)


@on_all
def test_job_history_has_times_and_amounts(chain, expected):
    grid = join_real_grid(chain)
    number = grid.request("script-1")
    grid.match(number)
    grid.claim()
    started_at = grid.ledger.head().timestamp
    grid.run(number, started_at)
    grid.pass_time(100)
    grid.settle(number, JobState.FINISHED, seconds=61)
    job = grid.job(number)

    history = chain.as_customer.job_history(number)

    requested, matched, claimed, started, settled = history
    assert event_names(history) == [
        "JobRequested",
        "JobMatched",
        "JobClaimed",
        "JobStarted",
        "JobSettled",
    ]
    assert requested.occurred_at <= matched.occurred_at <= claimed.occurred_at
    assert claimed.occurred_at <= started.occurred_at <= settled.occurred_at
    # The contracts of DeepSquare 1.2 store the time of the block, which is one second later.
    assert started.numbers["startTime"] in {started_at, started_at + 1}
    assert settled.numbers["status"] == JobState.FINISHED
    cost = billing_oracle.cost(expected.billed_s(61), job.price_per_min)
    assert settled.numbers["cost"] == cost
    assert job.final_cost == cost
    if expected.has_own_events:
        assert requested.numbers["locked"] == 200 * COIN
        assert settled.numbers["billedSeconds"] == 61


def event_names(history):
    return [event.event for event in history]


@on_all
def test_history_of_a_refused_and_cancelled_job_has_all_its_events(chain, expected):
    grid = join_real_grid(chain)
    cancelled_number = grid.request("script-1")
    claimed_number = grid.request("script-2", escrow=100 * COIN)
    grid.match(claimed_number)
    grid.claim()
    grid.refuse(claimed_number)
    grid.cancel(claimed_number)
    grid.cancel(cancelled_number)

    history = chain.as_customer.job_history(claimed_number)

    names = event_names(history)
    if "JobCancelRequested" in names:  # only our contracts emit it
        names.remove("JobCancelRequested")
    assert names == ["JobRequested", "JobMatched", "JobClaimed", "JobUnmatched", "JobRefunded"]
    assert history[-1].numbers == {"status": JobState.CANCELLED, "amount": 100 * COIN}


@on_all
def test_every_provider_is_listed_once(chain):
    grid = RealGrid(chain)
    grid.register()
    grid.register()

    assert chain.as_customer.provider_addresses() == (chain.provider.address,)
    chain.as_admin.approve_provider(chain.provider.address)
    chain.as_admin.remove_provider(chain.provider.address)
    assert chain.as_customer.provider_addresses() == (chain.provider.address,)


def test_address_without_contracts_is_a_config_error(chain):
    for address in ("0x" + "12" * 20, chain.contracts.credit.address):
        with pytest.raises(ConfigError, match="cannot find the grid's contracts"):
            find_contracts(chain.node, address)


@on_all
def test_fees_and_gas_are_read_from_the_node(chain, provider_account):
    fees = provider_account.fees()

    assert 0 < fees.tip < fees.max_fee
    transfer, claim = provider_account.gas([(), [ClaimJobs(limit=1)]], available_gas=30_000_000)
    assert transfer == 21_000  # the gas of a transaction that calls no contract
    assert isinstance(claim, TransactionReverted)
    assert "ProviderNotJoined" in str(claim)


@on_all
def test_nonce_is_read_at_the_requested_block(chain, ledger):
    account = ChainAccount(chain.node, chain.contracts, chain.customer)
    before = ledger.head()
    nonce = account.nonce(at_block=before)
    chain.as_customer.allow(1)

    assert account.nonce(at_block=before) == nonce
    assert account.nonce(at_block=ledger.head()) == nonce + 1


@on_all
def test_follower_reads_the_new_job_after_a_reorg_of_a_real_chain(chain, ledger):
    cursor, numbers = MemoryCursor(), []

    def record(events):
        numbers.extend(event.job_id.number for event in events)

    follower = Follower(ledger, cursor, first_block=ledger.head().number)
    chain.as_customer.request_job(request())
    follower.tick(record)
    chain.as_customer.request_job(request())
    follower.tick(record)
    chain.anvil.reorg(1)
    follower.tick(record)
    chain.as_customer.request_job(request())
    follower.tick(record)

    # The reorg removed job 2, so the next job got number 2 again.
    assert numbers == [1, 2, 2]
    assert cursor.load() == ledger.head()


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "{url}/nothing-here?%zz"])
def test_error_of_an_unreachable_endpoint_is_chain_unavailable(chain, url):
    node = Node(url.format(url=chain.anvil.url))

    with closing(node), pytest.raises(ChainUnavailable):
        node.ask("eth_chainId")


def test_error_of_an_unknown_method_is_chain_unavailable(chain):
    with pytest.raises(ChainUnavailable, match="eth_noSuchMethod"):
        chain.node.ask("eth_noSuchMethod")
