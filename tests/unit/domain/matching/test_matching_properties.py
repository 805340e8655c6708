# SPDX-License-Identifier: Apache-2.0
"""Properties of matching, for random grids and random sequences of events."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    ALICE,
    BLOCK,
    BOB,
    CAROL,
    FIRST,
    MINT,
    NOW,
    SECOND,
    THIRD,
    matcher,
    pending_job,
    provider,
    resources,
    set_jobs,
)

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.policies import BALANCED, CHEAPEST, SOONEST
from gridstead.domain.matching.shares import HalfLife, Shares, Spending

CUSTOMERS = (ALICE, BOB, CAROL)
POLICIES = st.sampled_from((BALANCED, CHEAPEST, SOONEST))
RESOURCES = st.builds(
    Resources,
    gpus=st.integers(0, 2),
    tasks=st.integers(1, 3),
    cpus_per_task=st.integers(1, 4),
    memory_per_cpu_mb=st.integers(1, 4),
)
REQUEST = st.tuples(RESOURCES, st.sampled_from(CUSTOMERS), st.integers(20, 400))
NODES = st.lists(st.integers(1, 6), min_size=1, max_size=3)
PROVIDERS = st.lists(st.tuples(NODES, st.integers(1, 3)), min_size=1, max_size=3)
EVENT = st.one_of(
    REQUEST, st.tuples(st.sampled_from(("start", "end", "refuse", "decide")), st.integers(0, 9))
)


def providers_of(drawn):
    result = []
    for address, (nodes, price) in zip((FIRST, SECOND, THIRD), drawn, strict=False):
        result.append(provider(address, *nodes, price=price, memory_mb=12, gpus=2))
    return result


def job_of(number, request):
    requested, customer, escrow = request
    return pending_job(number, resources=requested, customer=customer, escrow=escrow)


def jobs_of(requests, *, first=1):
    return [job_of(number, request) for number, request in enumerate(requests, start=first)]


class Driver:
    """A grid whose jobs are requested, matched, started, ended and refused.

    Attributes:
        matched: The jobs that are matched or run, in the order of their matches.
    """

    def __init__(self, providers, policy):
        self.grid = matcher(*providers, customers=CUSTOMERS, policy=policy)
        self.matched = []
        self.count = 0
        self.now = NOW

    def apply(self, event):
        self.now += 7
        if len(event) == len(("resources", "customer", "escrow")):
            self.count += 1
            set_jobs(self.grid, job_of(self.count, event))
            return
        name, index = event
        if name == "decide":
            self.decide()
        elif self.matched:
            self.change(name, self.matched.pop(index % len(self.matched)))

    def decide(self):
        for pairing in self.grid.decide(now=self.now, block=BLOCK).matches:
            assert pairing.job.id not in {job.id for job in self.matched}
            match = {"provider": pairing.provider, "price_per_min": pairing.price_per_min}
            job = replace(pairing.job, state=JobState.META_SCHEDULED, **match)
            self.matched.append(job)

    def change(self, name, job):
        if name == "start":
            job = replace(job, state=JobState.RUNNING, started_at=self.now)
            self.matched.append(job)
        elif name == "end":
            job = replace(job, state=JobState.FINISHED, final_cost=job.escrow // 2)
        else:
            job = replace(job, state=JobState.PENDING, provider="", price_per_min=0, started_at=0)
        set_jobs(self.grid, job)


@settings(max_examples=60)
@given(PROVIDERS, POLICIES, st.lists(EVENT, max_size=40))
def test_jobs_never_use_more_than_a_provider_has(drawn, policy, events):
    """Also, a job is matched only once until it is pending again, which ``Driver`` checks."""
    driver = Driver(providers_of(drawn), policy)
    for event in (*events, ("decide", 0)):
        driver.apply(event)
        for cluster in driver.grid.clusters.values():
            hardware = cluster.provider.hardware
            used = [
                job.resources for job in driver.matched if job.provider == cluster.provider.address
            ]
            assert sum(each.cpus for each in used) <= sum(hardware.cpus_per_node)
            assert sum(each.memory_mb for each in used) <= sum(hardware.memory_per_node_mb)
            assert sum(each.gpus for each in used) <= sum(hardware.gpus_per_node)
            assert (cluster.waiting_count, cluster.job_count) == (0, len(used))


@settings(max_examples=40)
@given(st.lists(st.integers(1, 50), min_size=12, max_size=12), st.integers(1, 12))
def test_backlogged_customers_with_equal_weight_differ_by_at_most_one_job(escrows, room):
    """Both customers have jobs with the same escrows, and more than there is room for."""
    requests = []
    for customer in (ALICE, BOB):
        for escrow in escrows:
            requests.append((resources(), customer, escrow))  # noqa: PERF401 - two loops
    grid = matcher(provider(FIRST, room), jobs=jobs_of(requests))

    grid.decide(now=NOW, block=BLOCK)

    usages = [grid.shares.usage(customer, block=BLOCK) for customer in (ALICE, BOB)]
    assert sum(usages) > 0
    assert abs(usages[0] - usages[1]) <= max(escrows)


def starts_of(grid):
    """Return the start of each reservation, by job."""
    return {job: cluster.reservation.start_at for job, cluster in grid.reserved.items()}


@settings(max_examples=60)
@given(
    PROVIDERS,
    POLICIES,
    st.lists(REQUEST, min_size=4, max_size=12),
    st.lists(st.lists(REQUEST, max_size=4), min_size=1, max_size=4),
)
def test_later_matches_do_not_delay_a_reservation(drawn, policy, first_requests, later_requests):
    grid = matcher(
        *providers_of(drawn), jobs=jobs_of(first_requests), customers=CUSTOMERS, policy=policy
    )
    moves = list(grid.decide(now=NOW, block=BLOCK).moves)
    first = 100
    for requests in later_requests:
        earlier_starts = starts_of(grid)
        set_jobs(grid, *jobs_of(requests, first=first))
        first += 100

        moves += grid.decide(now=NOW, block=BLOCK).moves

        for job, start in starts_of(grid).items():
            assert start <= earlier_starts.get(job, start)
    for cluster in grid.reserved.values():
        reservation = cluster.reservation
        real_start = cluster.earliest_start(reservation.resources, now=NOW)
        assert real_start <= reservation.start_at
    assert moves == []


@settings(max_examples=60)
@given(
    PROVIDERS,
    POLICIES,
    st.lists(st.tuples(REQUEST, st.booleans()), max_size=12),
    st.randoms(use_true_random=False),
)
def test_result_does_not_depend_on_the_order_in_which_values_are_set(drawn, policy, values, random):
    """Some of the jobs are matched to FIRST already."""
    providers = providers_of(drawn)
    jobs = []
    for number, (request, is_matched) in enumerate(values, start=1):
        job = job_of(number, request)
        match = {"state": JobState.META_SCHEDULED, "provider": FIRST, "price_per_min": 3}
        jobs.append(replace(job, **match) if is_matched else job)

    results = []
    for _ in range(2):
        grid = matcher(*providers, jobs=jobs, customers=CUSTOMERS, policy=policy)
        first = grid.decide(now=NOW, block=BLOCK)
        second = grid.decide(now=NOW, block=BLOCK)
        results.append((first, second, starts_of(grid)))
        random.shuffle(providers)
        random.shuffle(jobs)

    assert results[0] == results[1]


AMOUNT = st.integers(0, 10**6)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(AMOUNT, st.integers(0, 9)), min_size=1, max_size=6),
    AMOUNT,
    st.integers(1, 200),
)
def test_divided_wallet_has_the_same_weight_in_total(transfers, escrow, later_blocks):
    """ALICE receives twice what each of BOB and CAROL receives, and has twice the escrow."""
    shares = Shares(HalfLife(20))
    block = 0
    for amount, passed_blocks in transfers:
        block += passed_blocks
        for customer, share in ((ALICE, 2 * amount), (BOB, amount), (CAROL, amount)):
            shares.transfer(MINT, customer, share, block=block)
    for number, (customer, held) in enumerate(
        ((ALICE, 2 * escrow), (BOB, escrow), (CAROL, escrow))
    ):
        spending = Spending(
            customer=customer,
            cost=0,
            matched_block=0,
            deposits=((block, held),),
            ended_block=None,
        )
        shares.set_job(job_id(number), spending)

    weights = [shares.weight(customer, block=block + later_blocks) for customer in CUSTOMERS]

    assert 0 <= weights[0] - weights[1] - weights[2] <= 1


@settings(max_examples=50)
@given(
    st.lists(REQUEST, min_size=1, max_size=8),
    st.integers(0, 500),
    st.integers(0, 500),
)
def test_usage_is_removed_when_the_jobs_are_pending_again(requests, match_delay, return_delay):
    jobs = jobs_of(requests)
    grid = matcher(provider(FIRST, 4, 4, gpus=2), jobs=jobs, customers=CUSTOMERS)
    match_block = BLOCK + match_delay
    untouched = matcher(jobs=jobs, customers=CUSTOMERS)
    decision = grid.decide(now=NOW, block=match_block)
    used = sum(grid.shares.usage(customer, block=match_block) for customer in CUSTOMERS)
    assert used == sum(pairing.job.escrow for pairing in decision.matches)

    set_jobs(grid, *jobs)

    block = match_block + return_delay
    for customer in CUSTOMERS:
        weight = untouched.shares.weight(customer, block=block)
        assert grid.shares.usage(customer, block=block) == 0
        assert grid.shares.priority(customer, block=block) == 0
        assert grid.shares.weight(customer, block=block) == weight


@settings(max_examples=40)
@given(PROVIDERS, POLICIES, st.lists(REQUEST, min_size=1, max_size=10), st.integers(2, 5))
def test_job_is_matched_once_until_it_is_pending_again(drawn, policy, requests, decisions):
    jobs = jobs_of(requests)
    grid = matcher(*providers_of(drawn), jobs=jobs, customers=CUSTOMERS, policy=policy)
    first_matches = grid.decide(now=NOW, block=BLOCK).matches
    matched = [pairing.job.id for pairing in first_matches]
    for number in range(1, decisions):
        later = grid.decide(now=NOW + number, block=BLOCK + number)
        matched += [pairing.job.id for pairing in later.matches]
    assert len(matched) == len(set(matched))

    set_jobs(grid, *jobs)

    matched_again = [pairing.job.id for pairing in grid.decide(now=NOW, block=BLOCK).matches]
    assert len(matched_again) == len(set(matched_again))
    assert bool(matched_again) == bool(first_matches)
