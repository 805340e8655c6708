# SPDX-License-Identifier: Apache-2.0
"""Tests of the figures of a simulation. The expected figures are computed by hand."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.services.simulation.builders import CREDIT, job, provider

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.matching.decisions import Move
from gridstead.services.simulation.figures import (
    GAS_PER_MATCH,
    WaitFigures,
    bounded_slowdown,
    figures_of,
    jain_index,
    percentile,
)
from gridstead.services.simulation.outcome import JobRun, SimulationOutcome
from gridstead.services.simulation.simulator import SimulatedGrid

CHEAP = provider("cheap", 4, price=1)
DEAR = provider("dear", 4, price=2)
GRID = SimulatedGrid(
    providers=(CHEAP, DEAR),
    credits_by_customer={"ada": 100 * CREDIT, "bob": 50 * CREDIT, "eve": CREDIT},
)


def run(simulated_job, name="", *, price=0, started_at=None, ended_at=None):
    return JobRun(
        simulated_job,
        escrow=1000 * CREDIT,
        provider=name,
        price_per_min=price * CREDIT,
        started_at=started_at,
        ended_at=ended_at,
    )


def move(cause):
    job_id = JobId(chain_id=1, contract="0x" + "c0" * 20, number=1)
    return Move(job_id=job_id, provider="cheap", from_s=0, to_s=100, cause=cause)


@pytest.fixture
def figures():
    """Return the figures after 1000 s: one job ended, one runs, one waits."""
    outcome = SimulationOutcome(
        policy="balanced",
        runs=[
            run(job(0, cpus=2), "cheap", price=2, started_at=100, ended_at=700),
            run(job(300, "bob", cpus=4), "dear", price=8, started_at=700),
            run(job(600, "bob", run_s=100)),
        ],
        refused=Counter(eve=3),
        moves=[move("job 1 left"), move("job 22 left"), move("its nodes changed")],
        matches=2,
        now=1000,
    )
    return figures_of(outcome, GRID)


def test_jobs_are_counted(figures):
    assert (figures.jobs_submitted, figures.jobs_started, figures.jobs_ended) == (3, 2, 1)
    assert figures.jobs_refused == 3
    assert figures.simulated_s == 1000


def test_utilisation_is_the_cpu_time_in_relation_to_that_of_the_nodes(figures):
    # 2 CPUs for 600 s, and 4 CPUs for 300 s so far.
    assert figures.utilisation == (1200 + 1200) / 8000
    assert [each.utilisation for each in figures.providers] == [0.3, 0.3]
    assert [each.jobs_started for each in figures.providers] == [1, 1]


def test_job_that_waits_counts_with_its_time_so_far(figures):
    assert figures.wait == WaitFigures(p50_s=400, p95_s=400, p99_s=400)
    ada = next(each for each in figures.customers if each.customer == "ada")
    assert ada.wait == WaitFigures(p50_s=100, p95_s=100, p99_s=100)


def test_mean_bounded_slowdown(figures):
    slowdowns = [(100 + 600) / 600, (400 + 600) / 600, (400 + 100) / 100]
    assert figures.mean_bounded_slowdown == round(sum(slowdowns) / 3, 4)


def test_money_is_divided_between_customers_and_providers(figures):
    # 10 minutes for 2 credits, and 5 minutes so far for 8 credits.
    money = [(each.customer, each.money_wei, each.money_share) for each in figures.customers]
    assert money == [
        ("bob", 40 * CREDIT, 0.6667),
        ("ada", 20 * CREDIT, 0.3333),
        ("eve", 0, 0.0),
    ]
    assert [each.money_wei for each in figures.providers] == [20 * CREDIT, 40 * CREDIT]


def test_jain_index_divides_the_money_by_the_credits(figures):
    # ada: 20 / 100, bob: 40 / 50, eve: 0
    assert figures.jain_index == pytest.approx((0.2 + 0.8) ** 2 / (3 * (0.04 + 0.64)), abs=1e-4)


def test_moves_are_counted_by_cause(figures):
    assert figures.reservations_moved == 3
    assert figures.moves_by_cause == {"a job left": 2, "its nodes changed": 1}


def test_gas_is_that_of_the_matches(figures):
    assert (figures.matches, figures.gas) == (2, 2 * GAS_PER_MATCH)


def test_gas_of_a_match_agrees_with_the_measured_gas():
    page = Path("contracts/gas.md").read_text()
    row = re.search(r"^\| match .* ([\d,]+) \|$", page, re.MULTILINE)

    assert int(row[1].replace(",", "")) == pytest.approx(GAS_PER_MATCH, rel=0.05)


def test_figures_at_the_start_are_zero():
    figures = figures_of(SimulationOutcome("balanced"), GRID)

    assert (figures.utilisation, figures.mean_bounded_slowdown, figures.jain_index) == (0, 0, 1)
    assert figures.wait == WaitFigures(p50_s=0, p95_s=0, p99_s=0)


@pytest.mark.parametrize(
    ("percent", "expected"), [(1, 10), (50, 20), (51, 30), (75, 30), (76, 40), (99, 40)]
)
def test_percentile(percent, expected):
    assert percentile([10, 20, 30, 40], percent) == expected


@pytest.mark.parametrize(
    ("values", "expected"), [([3, 3, 3], 1), ([1, 0, 0, 0], 0.25), ([], 1), ([0, 0], 1)]
)
def test_jain_index(values, expected):
    assert jain_index(values) == expected


@pytest.mark.parametrize(
    ("run_s", "wait_s", "expected"), [(10, 0, 1), (10, 50, 1), (10, 110, 2), (600, 600, 2)]
)
def test_bounded_slowdown(run_s, wait_s, expected):
    assert bounded_slowdown(run(job(0, run_s=run_s), started_at=wait_s), now=9999) == expected
