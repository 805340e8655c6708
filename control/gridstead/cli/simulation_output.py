# SPDX-License-Identifier: Apache-2.0
"""Prints the results of simulations: as tables, or as one JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import NamedTuple

from gridstead.cli.output import emit_table, print_line
from gridstead.domain.jobs.billing import WEI_PER_CREDIT
from gridstead.services.simulation.figures import PolicyFigures

MAX_PRINTED_ROWS = 20
CUSTOMER_COLUMNS = (
    "customer",
    "jobs",
    "started",
    "refused",
    "wait, median",
    "95 %",
    "99 %",
    "credits",
    "share",
)
PROVIDER_COLUMNS = ("provider", "CPUs", "started", "credits", "share", "utilisation")
CAUSE_COLUMNS = ("count", "cause")
INCOMPLETE = "INCOMPLETE: the simulation was interrupted. The figures describe the time until then."


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of the simulations of a scenario.

    Attributes:
        scenario: The name of the scenario file.
        seed: The seed.
        duration_s: The time that each policy should be simulated, seconds.
        is_complete: Whether each policy was simulated up to this time.
        unsuitable_jobs: The number of jobs that were left out because no provider can run them.
        policies: The figures of each policy that was simulated.
    """

    scenario: str
    seed: int
    duration_s: int
    is_complete: bool
    unsuitable_jobs: int
    policies: tuple[PolicyFigures, ...]


class Metric(NamedTuple):
    """A row in the table that compares the policies.

    Attributes:
        title: The title of the row.
        text: Returns the text of a policy's cell.
    """

    title: str
    text: Callable[[PolicyFigures], str]


METRICS = (
    Metric("simulated time", lambda policy: duration_text(policy.simulated_s)),
    Metric("jobs submitted", lambda policy: f"{policy.jobs_submitted}"),
    Metric("jobs started", lambda policy: f"{policy.jobs_started}"),
    Metric("jobs ended", lambda policy: f"{policy.jobs_ended}"),
    Metric("jobs refused", lambda policy: f"{policy.jobs_refused}"),
    Metric("utilisation of CPUs", lambda policy: percent_text(policy.utilisation)),
    Metric("wait, median", lambda policy: duration_text(policy.wait.p50_s)),
    Metric("wait, 95 %", lambda policy: duration_text(policy.wait.p95_s)),
    Metric("wait, 99 %", lambda policy: duration_text(policy.wait.p99_s)),
    Metric("mean bounded slowdown", lambda policy: f"{policy.mean_bounded_slowdown:.2f}"),
    Metric("Jain's index", lambda policy: f"{policy.jain_index:.3f}"),
    Metric("reservations moved", lambda policy: f"{policy.reservations_moved}"),
    Metric("matches", lambda policy: f"{policy.matches}"),
    Metric("gas of matches", lambda policy: f"{policy.gas}"),
)


def report_json(report: Report) -> dict[str, object]:
    """Return the results as a JSON document. Its keys are the fields of the figures."""
    return {
        "scenario": report.scenario,
        "seed": report.seed,
        "duration_s": report.duration_s,
        "complete": report.is_complete,
        "unsuitable_jobs": report.unsuitable_jobs,
        "policies": [asdict(policy) for policy in report.policies],
    }


def emit_report(report: Report) -> None:
    """Print the results as tables."""
    if not report.is_complete:
        print_line(INCOMPLETE)
    if report.unsuitable_jobs:
        print_line(unsuitable_text(report))
    names = [policy.policy for policy in report.policies]
    emit_table(("FIGURE", *names), comparison_rows(report))
    for policy in report.policies:
        _emit_policy(policy)


def _emit_policy(policy: PolicyFigures) -> None:
    """Print the customers, the providers and the moved reservations of a policy."""
    name = policy.policy
    print_line(f"\n{name}: customers")
    rows = customer_rows(policy)
    emit_table(_upper(CUSTOMER_COLUMNS), rows[:MAX_PRINTED_ROWS])
    _print_omitted(len(rows), "customers")
    print_line(f"\n{name}: providers")
    rows = provider_rows(policy)
    emit_table(_upper(PROVIDER_COLUMNS), rows[:MAX_PRINTED_ROWS])
    _print_omitted(len(rows), "providers")
    if policy.moves_by_cause:
        print_line(f"\n{name}: moved reservations")
        emit_table(_upper(CAUSE_COLUMNS), cause_rows(policy))


def _upper(columns: Iterable[str]) -> list[str]:
    return [column.upper() for column in columns]


def _print_omitted(rows: int, name: str) -> None:
    if rows > MAX_PRINTED_ROWS:
        print_line(f"{rows - MAX_PRINTED_ROWS} more {name}: see --json or --html")


def unsuitable_text(report: Report) -> str:
    """Return a sentence about the jobs that were left out."""
    return f"{report.unsuitable_jobs} jobs are left out, because no provider can run them."


def comparison_rows(report: Report) -> list[list[str]]:
    """Return a row for each figure, with a cell for each policy."""
    rows = []
    for metric in METRICS:
        cells = [metric.text(policy) for policy in report.policies]
        rows.append([metric.title, *cells])
    return rows


def customer_rows(policy: PolicyFigures) -> list[list[str]]:
    """Return a row for each customer."""
    rows = []
    for customer in policy.customers:
        wait = customer.wait
        row = [
            customer.customer,
            f"{customer.jobs_submitted}",
            f"{customer.jobs_started}",
            f"{customer.jobs_refused}",
            duration_text(wait.p50_s),
            duration_text(wait.p95_s),
            duration_text(wait.p99_s),
            money_text(customer.money_wei),
            percent_text(customer.money_share),
        ]
        rows.append(row)
    return rows


def provider_rows(policy: PolicyFigures) -> list[list[str]]:
    """Return a row for each provider."""
    rows = []
    for provider in policy.providers:
        row = [
            provider.provider,
            f"{provider.cpus}",
            f"{provider.jobs_started}",
            money_text(provider.money_wei),
            percent_text(provider.money_share),
            percent_text(provider.utilisation),
        ]
        rows.append(row)
    return rows


def cause_rows(policy: PolicyFigures) -> list[list[str]]:
    """Return a row for each cause of moved reservations."""
    return [[f"{count}", cause] for cause, count in policy.moves_by_cause.items()]


def percent_text(fraction: float) -> str:
    """Return a fraction in percent.

    >>> percent_text(0.1234)
    '12.3 %'
    """
    return f"{fraction * 100:.1f} %"


def money_text(wei: int) -> str:
    """Return an amount in credits, with two decimals."""
    cents = wei * 100 // WEI_PER_CREDIT
    return f"{cents // 100}.{cents % 100:02}"


def duration_text(seconds: int) -> str:
    """Return a duration with its two largest units.

    >>> duration_text(93_784)
    '1d 2h'
    """
    minutes, remaining_s = divmod(seconds, 60)
    hours, remaining_minutes = divmod(minutes, 60)
    days, remaining_hours = divmod(hours, 24)
    if days:
        return f"{days}d {remaining_hours}h"
    if hours:
        return f"{hours}h {remaining_minutes}m"
    if minutes:
        return f"{minutes}m {remaining_s}s"
    return f"{remaining_s}s"
