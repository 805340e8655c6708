# SPDX-License-Identifier: Apache-2.0
"""Tests of the reputation of providers.

The half-life is 16800 blocks. So a provider rests for 100 blocks, and the reputation is computed
every 5 blocks. The jobs end in block 1000 and are worth 100 wei if a test says nothing else.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain import builders
from tests.unit.domain.builders import T0
from tests.unit.domain.matching.grids import ALICE, FIRST, SECOND, THIRD

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.reputation import MILLION, NEUTRAL, Reputation, Standing
from gridstead.domain.matching.shares import HalfLife, Shares

HALF_LIFE = HalfLife(16_800)
END = 1000
REST_BLOCKS = 100
UPDATE_BLOCKS = 5
VALUE = 100
AMOUNTS = st.integers(1, 10**24)
BLOCKS = st.integers(END, END + 10 * HALF_LIFE.blocks)


def customer(number):
    return f"0x{number:040x}"


def new_reputation():
    return Reputation(HALF_LIFE, Shares(HALF_LIFE))


def count(reputation, state=JobState.FINISHED, *, of=ALICE, address=FIRST, **changes):
    """Count a job that was matched in the block before its end."""
    end = changes.pop("end", END)
    matched_block = changes.pop("matched_block", end - 1)
    returned_by = changes.pop("returned_by", {})
    value = changes.pop("value", VALUE)
    is_panicked = state is JobState.PANICKED
    values = {
        "customer": of,
        "provider": address,
        "state_block": end,
        "started_at": T0,
        "escrow": value if is_panicked else 10 * value,
        "final_cost": 0 if is_panicked else value,
    }
    job = builders.job(state, **(values | changes))
    reputation.count_job(job, matched_block=matched_block, returned_by=returned_by)


def count_faults(reputation, customers, **changes):
    """Count one fault of each customer 0, 1, ..."""
    for number in range(customers):
        count(reputation, JobState.PANICKED, of=customer(number), **changes)


def faults_at(reputation, block=END, address=FIRST):
    reputation.update(block)
    return reputation.standing(address).faults


def test_new_provider_has_no_faults():
    reputation = new_reputation()

    assert not reputation.update(END)
    assert reputation.standing(FIRST) == NEUTRAL
    assert reputation.standing(FIRST).success == MILLION
    assert reputation.max_risk_percent == 0


@pytest.mark.parametrize(
    ("customers", "faults"), [(1, 100_000), (2, 181_818), (3, 250_000), (4, 307_692)]
)
def test_each_customer_has_one_vote_beside_nine_for_the_provider(customers, faults):
    reputation = new_reputation()
    count_faults(reputation, customers)

    assert faults_at(reputation) == faults
    assert reputation.standing(FIRST).success == MILLION - faults
    assert reputation.standing(SECOND).success == MILLION


@pytest.mark.parametrize(
    ("customers", "risk_percent"),
    [(1, 0), (2, 8), (3, 15), (9, 40)],
)
def test_faults_that_one_customer_can_cause_are_no_risk(customers, risk_percent):
    reputation = new_reputation()
    count_faults(reputation, customers)
    reputation.update(END)

    assert reputation.standing(FIRST).risk_percent == risk_percent
    assert reputation.max_risk_percent == risk_percent


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.OUT_OF_CREDITS, JobState.CANCELLED])
def test_paid_job_is_a_success_however_it_ended(state):
    reputation = new_reputation()
    count_faults(reputation, 1)
    count(reputation, state, of=customer(1))

    assert faults_at(reputation) == 1 * MILLION // (9 + 2)


def test_vote_of_a_customer_is_the_share_of_its_faults_by_value():
    reputation = new_reputation()
    count(reputation, JobState.PANICKED, value=100)
    count(reputation, value=300)

    assert faults_at(reputation) == MILLION // 4 // 10


def test_customer_with_jobs_of_less_than_the_typical_value_has_a_part_of_a_vote():
    """The median of the values is 100, so the customer with 25 has a quarter of a vote."""
    reputation = new_reputation()
    count(reputation, JobState.PANICKED, value=25)
    count(reputation, of=customer(1), address=SECOND, value=100)
    count(reputation, of=customer(2), address=SECOND, value=100)

    assert faults_at(reputation) == MILLION * 25 // (9 * 100 + 25)


@pytest.mark.parametrize(
    "changes",
    [
        {"price_per_min": 0},
        {"provider": ""},
        {"state": JobState.CANCELLED, "final_cost": 0},
        {"state": JobState.FAILED, "final_cost": 0, "started_at": 0, "returned_by": {FIRST: 900}},
    ],
)
def test_job_without_a_price_or_without_a_bill_does_not_count(changes):
    reputation = new_reputation()
    count(reputation, **({"state": JobState.PANICKED} | changes))

    assert faults_at(reputation) == 0


def test_refusal_counts_after_another_provider_was_paid_for_the_job():
    reputation = new_reputation()
    count(reputation, address=SECOND, returned_by={FIRST: 900, THIRD: 950})
    reputation.update(END)

    assert reputation.standing(FIRST).faults > 0
    assert reputation.standing(THIRD).faults > 0
    assert reputation.standing(SECOND) == NEUTRAL


@pytest.mark.parametrize(
    "changes",
    [
        {"address": FIRST},  # the same provider ran it later
        {"address": SECOND, "started_at": 0},
        {"address": SECOND, "state": JobState.PANICKED},
    ],
)
def test_refusal_does_not_count_without_a_successful_start_at_another_provider(changes):
    reputation = new_reputation()
    count(reputation, returned_by={FIRST: 900}, **changes)

    assert faults_at(reputation) == 0


def test_refusal_counts_with_the_bill_of_the_other_provider():
    """The customer paid 25 to SECOND, and its typical job is worth 100."""
    reputation = new_reputation()
    count(reputation, address=SECOND, value=25, returned_by={FIRST: END})
    count(reputation, address=SECOND, value=175)

    assert faults_at(reputation) == MILLION * 25 // (9 * 100 + 25)


def test_bad_provider_rests_after_its_last_fault_and_then_gets_one_job():
    reputation = new_reputation()
    count_faults(reputation, 9)
    count(reputation, JobState.PANICKED, of=customer(3), end=END + 50)

    for block, job_limit in ((END + 50, 0), (END + 149, 0), (END + 150, 1), (END + 10_000, 1)):
        reputation.update(block)
        assert reputation.standing(FIRST).job_limit == job_limit


def test_three_customers_with_faults_only_do_not_cause_a_rest():
    reputation = new_reputation()
    count_faults(reputation, 3)
    reputation.update(END)

    assert reputation.standing(FIRST) == Standing(faults=250_000)


@pytest.mark.parametrize(("matched_block", "job_limit"), [(END - 1, 1), (END, 1), (END + 1, None)])
def test_rest_ends_with_a_success_that_was_matched_after_the_last_fault(matched_block, job_limit):
    reputation = new_reputation()
    count_faults(reputation, 9)
    count(reputation, of=customer(0), matched_block=matched_block, end=END + 200)
    reputation.update(END + 200)

    assert reputation.standing(FIRST).faults > 250_000
    assert reputation.standing(FIRST).job_limit == job_limit


def test_next_fault_after_a_rest_causes_another_rest():
    reputation = new_reputation()
    count_faults(reputation, 9)
    count(reputation, matched_block=END + 1, end=END + 200)
    count_faults(reputation, 1, end=END + 300)
    reputation.update(END + 300)

    assert reputation.standing(FIRST).job_limit == 0


def test_update_computes_once_per_interval():
    reputation = new_reputation()
    count_faults(reputation, 1)

    assert reputation.update(END)
    count_faults(reputation, 2)
    assert not reputation.update(END + UPDATE_BLOCKS - 1)
    assert reputation.standing(FIRST).faults == 100_000
    assert reputation.update(END + UPDATE_BLOCKS)
    assert reputation.standing(FIRST).faults > 180_000


def test_half_life_of_a_few_blocks_is_possible():
    half_life = HalfLife(1)
    reputation = Reputation(half_life, Shares(half_life))
    count_faults(reputation, 4)
    reputation.update(END)

    assert reputation.standing(FIRST).job_limit == 0


def test_one_large_job_of_the_provider_itself_does_not_hide_its_faults():
    reputation = new_reputation()
    count_faults(reputation, 9)
    count(reputation, of=FIRST, value=10**6 * VALUE)

    assert faults_at(reputation) == 9 * MILLION // (9 + 10)


@given(
    others=st.lists(st.tuples(st.integers(2, 30), AMOUNTS, BLOCKS), max_size=30),
    slander=st.lists(st.tuples(AMOUNTS, BLOCKS), min_size=1, max_size=5),
    block=BLOCKS,
)
def test_one_customer_cannot_cause_more_than_a_tenth_of_faults(others, slander, block):
    reputation = new_reputation()
    for number, value, end in others:
        count(reputation, of=customer(number), value=value, end=end)
    for value, end in slander:
        count(reputation, JobState.PANICKED, of=customer(1), value=value, end=end)

    assert faults_at(reputation, block) <= MILLION // 10
    assert reputation.standing(FIRST).risk_percent == 0
    assert reputation.standing(FIRST).job_limit is None


@given(
    customers=st.integers(2, 30),
    value=AMOUNTS,
    bought=st.lists(st.tuples(AMOUNTS, BLOCKS), max_size=5),
)
def test_one_customer_cannot_hide_more_than_its_vote(customers, value, bought):
    """Without the bought jobs, the share is customers / (9 + customers)."""
    reputation = new_reputation()
    count_faults(reputation, customers, value=value)
    for bought_value, end in bought:
        count(reputation, of=customer(99), value=bought_value, end=end)

    assert faults_at(reputation) >= customers * MILLION // (9 + customers + 1) - 1


@given(
    faults=st.lists(st.tuples(st.integers(1, 30), AMOUNTS, BLOCKS), max_size=30),
    half_lives=st.integers(1, 5),
)
def test_faults_never_grow_without_further_jobs(faults, half_lives):
    reputation = new_reputation()
    for number, value, end in faults:
        count(reputation, JobState.PANICKED, of=customer(number), value=value, end=end)
    last_block = END + 10 * HALF_LIFE.blocks

    blocks = [last_block + number * HALF_LIFE.blocks for number in range(half_lives + 1)]
    shares = [faults_at(reputation, block) for block in blocks]

    assert shares == sorted(shares, reverse=True)


def test_fault_counts_half_as_much_after_a_half_life():
    """A customer whose jobs are worth one typical job has half a vote after a half-life."""
    reputation = new_reputation()
    count_faults(reputation, 4)

    assert faults_at(reputation, END) == 4 * MILLION // (9 + 4)
    assert faults_at(reputation, END + HALF_LIFE.blocks) == 2 * MILLION // (9 + 2)
    assert faults_at(reputation, END + 30 * HALF_LIFE.blocks) == 0


@given(
    jobs=st.permutations(
        [
            (JobState.PANICKED, 1, 50, 1001),
            (JobState.FINISHED, 1, 500, 1700),
            (JobState.PANICKED, 2, 7, 1500),
            (JobState.FAILED, 3, 90, 1400),
            (JobState.PANICKED, 4, 900, 1300),
        ]
    )
)
def test_order_in_which_jobs_are_counted_does_not_matter(jobs):
    def standing_after(ordered_jobs):
        reputation = new_reputation()
        for state, number, value, end in ordered_jobs:
            count(reputation, state, of=customer(number), value=value, end=end)
        reputation.update(2000)
        return reputation.standing(FIRST)

    assert standing_after(jobs) == standing_after(sorted(jobs))


def new_weighted_reputation(credits_by_customer):
    """Return a reputation, with the credits that each customer has from block 0 on."""
    shares = Shares(HALF_LIFE)
    for number, amount in credits_by_customer.items():
        shares.transfer(FIRST, customer(number), amount, block=0)
    return Reputation(HALF_LIFE, shares)


def test_customer_with_less_than_the_typical_weight_has_a_part_of_a_vote():
    reputation = new_weighted_reputation({0: 25, 1: 100, 2: 100})
    count(reputation, JobState.PANICKED, of=customer(0))
    count(reputation, of=customer(1), address=SECOND)
    count(reputation, of=customer(2), address=SECOND)

    assert faults_at(reputation) == MILLION * 25 // (9 * 100 + 25)


def test_customer_with_more_than_the_typical_weight_has_one_vote():
    reputation = new_weighted_reputation({0: 150, 1: 100, 2: 100})
    count(reputation, JobState.PANICKED, of=customer(0))
    count(reputation, of=customer(1), address=SECOND)
    count(reputation, of=customer(2), address=SECOND)

    assert faults_at(reputation) == MILLION // 10


@pytest.mark.parametrize("value", [1, VALUE, 1000 * VALUE])
def test_credits_divided_among_many_wallets_have_one_vote(value):
    honest = dict.fromkeys(range(9), 1000)
    attackers = dict.fromkeys(range(100, 200), 10)
    reputation = new_weighted_reputation(honest | attackers)
    for number in honest:
        count(reputation, of=customer(number), address=SECOND)
    for number in attackers:
        count(reputation, JobState.PANICKED, of=customer(number), value=value)

    assert faults_at(reputation) == MILLION * min(value, VALUE) // (9 * VALUE + min(value, VALUE))


def test_many_wallets_with_few_credits_do_not_hide_faults():
    honest = dict.fromkeys(range(9), 1000)
    attackers = dict.fromkeys(range(100, 200), 10)
    reputation = new_weighted_reputation(honest | attackers)
    for number in honest:
        count(reputation, JobState.PANICKED, of=customer(number))
    for number in attackers:
        count(reputation, of=customer(number), value=1000 * VALUE)

    assert faults_at(reputation) == 9 * MILLION // (9 + 9 + 1)
