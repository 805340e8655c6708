# SPDX-License-Identifier: Apache-2.0
"""Tests of the estimate of how many jobs are matched before a job."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import ALICE, BOB, CAROL, pending_job

from gridstead.domain.matching.fair_order import Account, FairOrder, JobsAhead


def jobs_of(customer, *numbers, escrow=60):
    return [pending_job(number, customer=customer, escrow=escrow) for number in numbers]


def ahead(order, number):
    """Return how many jobs are ahead: (of the same customer, of others)."""
    jobs_ahead = order.ahead_of(job_id(number))
    return jobs_ahead.own, jobs_ahead.others


def test_jobs_of_customers_with_equal_accounts_alternate():
    jobs = [*jobs_of(ALICE, 1, 2, 3), *jobs_of(BOB, 4, 5, 6)]
    order = FairOrder(jobs, {ALICE: Account(0, 10), BOB: Account(0, 10)})

    assert [ahead(order, number) for number in (4, 5, 6)] == [(0, 0), (1, 1), (2, 2)]


def test_customer_with_more_usage_waits_until_others_have_used_as_much():
    jobs = [*jobs_of(ALICE, 1), *jobs_of(BOB, 2, 3, 4, 5)]
    order = FairOrder(jobs, {ALICE: Account(120, 10), BOB: Account(0, 10)})

    # The turns of BOB's jobs are at 30, 90, 150 and 210, and that of ALICE's is at 150.
    assert ahead(order, 1) == (0, 2)
    assert ahead(order, 4) == (2, 0)
    assert ahead(order, 5) == (3, 1)


def test_customer_with_twice_the_weight_has_twice_as_many_turns():
    jobs = [*jobs_of(ALICE, *range(10)), *jobs_of(BOB, *range(10, 20))]
    order = FairOrder(jobs, {ALICE: Account(0, 20), BOB: Account(0, 10)})

    assert ahead(order, 12) == (2, 5)


def test_customer_without_weight_is_last():
    jobs = [*jobs_of(ALICE, 1), *jobs_of(BOB, 2, 3)]
    order = FairOrder(jobs, {ALICE: Account(0, 0), BOB: Account(0, 1000)})

    assert ahead(order, 1) == (0, 2)


def test_older_jobs_are_ahead_whatever_the_order_in_which_they_are_given():
    order = FairOrder(jobs_of(ALICE, 3, 1, 2), {ALICE: Account(0, 1)})

    assert [ahead(order, number)[0] for number in (1, 2, 3)] == [0, 1, 2]


def test_unknown_job_has_no_place():
    assert FairOrder([], {}).ahead_of(job_id(1)) is None


@given(
    escrows=st.lists(
        st.tuples(st.sampled_from([ALICE, BOB, CAROL]), st.integers(0, 9)), min_size=1
    ),
    accounts=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5)), min_size=3, max_size=3),
)
def test_jobs_ahead_are_those_with_an_earlier_turn(escrows, accounts):
    """Compare with the definition: half of a job's escrow, and that of its older jobs, count."""
    account_of = dict(zip((ALICE, BOB, CAROL), (Account(*each) for each in accounts), strict=True))
    jobs = []
    turns = []
    escrow_before = dict.fromkeys(account_of, 0)
    for number, (customer, escrow) in enumerate(escrows):
        jobs += jobs_of(customer, number, escrow=escrow)
        usage, weight = account_of[customer]
        # All weights divide 120, so the turns are integers.
        used = 2 * (usage + escrow_before[customer]) + escrow
        turns.append((used * (120 // weight), customer))
        escrow_before[customer] += escrow

    order = FairOrder(jobs, account_of)

    for number, (turn, customer) in enumerate(turns):
        own = sum(other == customer for _, other in turns[:number])
        others = sum(earlier < turn for earlier, other in turns if other != customer)
        assert order.ahead_of(job_id(number)) == JobsAhead(own=own, others=others)
