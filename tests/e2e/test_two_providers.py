# SPDX-License-Identifier: Apache-2.0
"""Tests with a second, cheaper provider that has a simulated cluster. Both providers are full.

The tests depend on their order: a job is refused, jobs fill both providers, further jobs wait for
different causes, all jobs end, and the second provider leaves the grid. The jobs of the load run
until the tests release them, so the tests do not depend on the speed of the machine.
"""

import contextlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import pytest
from tests import billing_oracle
from tests.e2e import many_customers
from tests.e2e.conftest import wait_until
from tests.e2e.occupation import most_cpus_at_once, provider_events
from tests.e2e.second_provider import LABELS, OFFER, add_provider
from tests.e2e.two_providers import (
    CREDITS_EACH,
    LOAD_RESOURCES,
    SETTLEMENT_TIMEOUT_S,
    Customer,
    TwoProviders,
)
from tests.e2e.waiting_jobs import CAUSES, LAB, WaitingJob, size

from gridstead.domain.jobs.lifecycle import COLD, JobState

CUSTOMERS = ("spread-1", "spread-2", "spread-3", "spread-4")
LOAD_JOBS_EACH, LATER_JOBS_EACH = 4, 2
JOBS_PER_PROVIDER = 8  # of the load, at one time
META_SCHEDULER_CONFIG = "/etc/gridstead/meta-scheduler.toml"
LARGE_JOB = size(tasks=2, cpus=64)  # needs the whole lab


@pytest.fixture(scope="module")
def no_queue_allowance(lab):
    """Match jobs only to providers that have room for them, as with the default settings."""
    backup = f"{META_SCHEDULER_CONFIG}.before-test"
    restart = "systemctl restart gridstead-meta-scheduler"
    lab.sh(
        "control",
        f"test -e {backup} || cp -p {META_SCHEDULER_CONFIG} {backup}\n"
        f"sed -i 's/^queue_allowance = .*/queue_allowance = 0/' {META_SCHEDULER_CONFIG}\n{restart}",
    )
    yield
    lab.sh("control", f"mv {backup} {META_SCHEDULER_CONFIG}\n{restart}")


@pytest.fixture(scope="module")
def customers(grid):
    users = grid.customers(CUSTOMERS, credits_=CREDITS_EACH)
    customers = [Customer(user=user, connection=many_customers.connect(user)) for user in users]
    with ThreadPoolExecutor(len(customers)) as pool:
        list(pool.map(lambda customer: customer.connection.allow(CREDITS_EACH), customers))
    yield customers
    for customer in customers:
        customer.connection.close()


@pytest.fixture(scope="module")
def two_providers(lab, grid, customers, no_queue_allowance, tmp_path_factory):
    """Return the grid with both providers. At the end, all jobs end and the second one leaves."""
    addresses = [customer.user.address for customer in customers]
    folder = tmp_path_factory.mktemp("second")
    with contextlib.ExitStack() as stack:
        admin = many_customers.connect(grid.admin)
        stack.callback(admin.close)
        second = add_provider(grid, admin, folder, OFFER, addresses, max_attempts=1)
        second.start()
        stack.callback(second.stop)
        stack.callback(second.leave)
        second.approve()
        second.cluster.slurm.keeps_running = True
        providers = TwoProviders(lab, grid, second, customers)
        yield providers
        providers.end_all_jobs()


@pytest.fixture(scope="module")
def refused_job(two_providers):
    """Return a job that only the second provider can run, and that its Slurm has rejected."""
    job = WaitingJob(resources=size(), zone=LABELS["zone"])
    two_providers.second.cluster.slurm.reject("a limit of the account")
    (number,) = two_providers.request(two_providers.customers[0], [job])
    two_providers.wait_explained(number, "refused")
    two_providers.second.cluster.slurm.reject("")
    return number


@pytest.fixture(scope="module")
def load(two_providers, refused_job):
    """Fill both providers with the jobs of all customers, and return the numbers of the jobs."""
    numbers = sum(two_providers.run_jobs(LOAD_JOBS_EACH), ())

    def are_matched():
        jobs = two_providers.jobs()
        return all(jobs[number].state is not JobState.PENDING for number in numbers)

    wait_until(are_matched, timeout=30)
    return numbers


@pytest.fixture(scope="module")
def large_job(two_providers, load):
    """Return a job for which the whole lab is reserved."""
    job = WaitingJob(resources=LARGE_JOB, zone="lab")
    (number,) = two_providers.request(two_providers.customers[0], [job])
    wait_until(lambda: two_providers.wait_explained(number).expected_start, timeout=20)
    return number


@pytest.fixture(scope="module")
def later_jobs(two_providers, large_job):
    """Return the numbers of jobs that wait for room, by customer."""
    return two_providers.run_jobs(LATER_JOBS_EACH)


@pytest.fixture(scope="module")
def waiting_jobs(two_providers, later_jobs):
    """Return the jobs of ``CAUSES``, by the name of the cause. The customers share them."""
    names, customers = list(CAUSES), two_providers.customers
    names_of_customers = [names[first :: len(customers)] for first in range(len(customers))]

    def request(customer, own_names):
        jobs = [CAUSES[name].job for name in own_names]
        return zip(own_names, two_providers.request(customer, jobs), strict=True)

    with ThreadPoolExecutor(len(customers)) as pool:
        return dict(chain.from_iterable(pool.map(request, customers, names_of_customers)))


def test_why_names_a_provider_that_refused_the_job(two_providers, refused_job):
    explanation = two_providers.explain(refused_job)

    conditions = [row[:2] for row in explanation.rows if row[1]]
    assert conditions == [("1", "refused it"), ("1", "without the required labels")]
    assert explanation.reason == (
        "no provider can run it: 1 refused it, 1 without the required labels"
    )
    assert explanation.codes == {"refused": 1, "labels": 1}


def test_the_cheaper_provider_is_filled_first(two_providers, load):
    events = provider_events(two_providers.chain, first_block=two_providers.first_block)
    providers = [event.provider for event in events if event.number in load]

    assert providers[:JOBS_PER_PROVIDER] == [two_providers.second.address] * JOBS_PER_PROVIDER
    assert providers[JOBS_PER_PROVIDER:] == [two_providers.addresses[LAB]] * JOBS_PER_PROVIDER


def test_later_jobs_wait_until_a_provider_has_room(two_providers, later_jobs):
    numbers = sum(later_jobs, ())
    answers = {number: two_providers.wait_explained(number) for number in numbers}
    reserved = [number for number in numbers if answers[number].expected_start is not None]

    for answer in answers.values():
        assert {each.code: each.providers for each in answer.obstacles} == {"full": 2}
    # The lab is reserved for the large job, and the second provider for one of these jobs.
    (number,) = reserved
    expected = answers[number].expected_start
    ends = []
    for job in two_providers.jobs().values():
        if job.provider == two_providers.second.address and job.state not in COLD:
            paid_s = billing_oracle.paid_seconds(job.escrow, job.price_per_min)
            ends.append((job.started_at or answers[number].block_time) + paid_s)
    assert expected.provider == two_providers.second.address
    assert expected.start_at == pytest.approx(min(ends), abs=120)


def test_why_shows_the_place_and_the_expected_start(two_providers, later_jobs):
    last_customer_jobs = later_jobs[-1]
    explanation = two_providers.explain(last_customer_jobs[1])

    assert explanation.reason.startswith("waits for a provider: 2 full")
    nearest = "needs 15 CPUs on a node; the largest node has 4 free"
    assert explanation.rows == (("2", "full", nearest),)
    assert explanation.nearest("full")["provider"] == two_providers.addresses[LAB]
    assert explanation.facts["jobs ahead"].startswith("about 1 of the same customer and ")


@pytest.mark.parametrize("name", CAUSES)
def test_why_names_the_cause(two_providers, waiting_jobs, name):
    cause = CAUSES[name]

    explanation = two_providers.explain(waiting_jobs[name])

    assert explanation.reason == cause.reason
    assert explanation.rows == cause.rows
    assert explanation.codes == cause.codes
    misses = [each["nearest"] for each in explanation.answer["obstacles"] if each["nearest"]]
    if cause.nearest is None:
        assert misses == []
        return
    quantity, needed, available, provider = cause.nearest
    assert {
        "quantity": quantity,
        "needed": needed,
        "available": available,
        "provider": two_providers.addresses[provider],
        "reserved_for": None,
    } in misses


def test_why_names_the_job_for_which_the_room_is_reserved(two_providers, large_job, waiting_jobs):
    job = WaitingJob(resources=size(), zone="lab")
    (number,) = two_providers.request(two_providers.customers[1], [job])

    explanation = two_providers.explain(number)

    assert explanation.reason == (
        "waits for a provider: 1 without the required labels, 1 with room, but not for this job yet"
    )
    assert explanation.codes == {"labels": 1, "reserved": 1}
    miss = explanation.nearest("reserved")
    assert int(miss["reserved_for"], 16) == large_job
    assert miss["available"] < miss["needed"]
    (text,) = [row[2] for row in explanation.rows if row[1] == "with room that is reserved"]
    assert text.startswith(f"is paid for 5 h 15 min; the room is reserved for job {large_job} in ")
    # Otherwise it would get the room as soon as the large job is cancelled.
    two_providers.customers[1].connection.customer.cancel_job(number)


def check_run(lab, two_providers, job, records):
    """Assert that a job has run once, at its provider only. Return the possible billed seconds."""
    number = job.id.number
    runs = [run for run in two_providers.second.cluster.slurm.runs() if run.job_id == job.id]
    if job.provider == two_providers.second.address:
        (run,) = runs
        assert records[number] == []
        assert run.script_number == two_providers.scripts[number]
        return [run.ended_at - run.started_at]
    assert job.provider == two_providers.addresses[LAB]
    assert runs == []
    (record,) = records[number]
    assert (record["user"], record["state"]) == (job.customer, "COMPLETED")
    # If the node reported an earlier end than slurmdbd, the bill is for the reported end.
    return [int(record["elapsedraw"]), lab.billed_seconds(record)]


def test_jobs_are_settled_once_and_billed_at_the_prices_of_their_provider(
    lab, grid, two_providers, load, later_jobs
):
    numbers = load + sum(later_jobs, ())
    connection = two_providers.customers[0].connection
    addresses = two_providers.addresses.values()
    balances = {address: grid.balance(address) for address in addresses}
    records_of_providers = connection.ledger.providers(addresses, at_block=connection.ledger.head())

    two_providers.cancel_pending_jobs(without=numbers)
    two_providers.release()
    jobs = connection.wait_cold(numbers, timeout=SETTLEMENT_TIMEOUT_S)

    records, earned = many_customers.records_of(lab, jobs), Counter()
    for number, job in jobs.items():
        seconds = check_run(lab, two_providers, job, records)
        (end,) = connection.end_events(number)
        price = billing_oracle.price(job.resources, records_of_providers[job.provider].prices)
        assert (job.state, job.price_per_min) == (JobState.FINISHED, price)
        assert job.final_cost in [billing_oracle.cost(each, price) for each in seconds]
        assert end.event == "JobSettled"
        assert end.numbers["cost"] == job.final_cost
        earned[job.provider] += billing_oracle.earned(job.final_cost)
    assert {each: grid.balance(each) - balances[each] for each in addresses} == earned


def test_no_provider_had_more_jobs_than_room(two_providers, load, later_jobs):
    events = provider_events(two_providers.chain, first_block=two_providers.first_block)
    cpus = {number: resources.cpus for number, resources in two_providers.resources.items()}

    most = most_cpus_at_once([event for event in events if event.number in cpus], cpus)

    # The last 4 CPUs of each node of the lab have no room for a job of the load.
    load_cpus = JOBS_PER_PROVIDER * LOAD_RESOURCES.cpus
    assert most == dict.fromkeys(two_providers.addresses.values(), load_cpus)


def test_why_names_a_provider_that_left(two_providers):
    two_providers.end_all_jobs()
    two_providers.second.leave()
    job = WaitingJob(resources=size(), zone=LABELS["zone"])
    (number,) = two_providers.request(two_providers.customers[0], [job])

    explanation = two_providers.explain(number)

    assert explanation.reason == (
        "no provider can run it: 1 removed, banned or not accepting jobs,"
        " 1 without the required labels"
    )
    assert explanation.codes == {"not-accepting": 1, "labels": 1}
