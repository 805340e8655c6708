# SPDX-License-Identifier: Apache-2.0
"""`gridstead simulate`: simulates a grid with several policies, and compares their figures."""

from __future__ import annotations

import sys
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridstead.cli.options import Json
from gridstead.cli.output import emit_json, print_note
from gridstead.errors import InvalidInput

if TYPE_CHECKING:  # The import takes time, which --help does not need.
    from gridstead.cli.simulation_output import Report
    from gridstead.wiring.simulation import Scenario

EXIT_INTERRUPTED = 130
# The progress is shown and an interruption is noticed after so much simulated time.
STEP_S = 60


class PolicyName(StrEnum):
    """The policies of ``--policy``."""

    CHEAPEST_FIRST = "cheapest-first"
    CHEAPEST = "cheapest"
    BALANCED = "balanced"
    SOONEST = "soonest"


def simulate(
    scenario: Annotated[
        Path | None,
        typer.Argument(metavar="SCENARIO", show_default=False, help="Scenario file (YAML)."),
    ] = None,
    policy: Annotated[
        list[PolicyName],
        typer.Option(
            "--policy",
            help="Simulate this policy instead of the policies in the file. Repeatable.",
        ),
    ] = [],  # noqa: B006 # The list is never changed.
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Use this seed instead of the seed in the file."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write the results to an HTML page."),
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Print a scenario that explains all keys, and exit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Simulate a grid with several policies of the meta-scheduler, and compare them.

    A scenario describes the providers, the customers and their jobs. The jobs are random, or come
    from a trace in SWF. The command simulates the same jobs with each policy. It uses the code that
    decides the matches of a real grid, and contacts no chain and no provider. For a first
    simulation:

    \b
      gridstead simulate --example > scenario.yaml
      gridstead simulate scenario.yaml --html results.html

    Policy cheapest-first is the matching of release 0.1, for comparison: each job gets the
    cheapest provider at once, and waits in the queue of this provider. The other policies match a
    job when a provider has room. With cheapest, a job waits for the cheapest provider. With
    soonest, it takes the cheapest provider that has room. With balanced, it waits for a cheaper
    provider if the job saves more than the waiting time costs.

    The same scenario and seed give the same figures. Ctrl-C stops the simulation and prints the
    figures so far, which are marked as incomplete. The exit code is then 130.
    """  # noqa: D301 - Click does not wrap the paragraph after a backspace character
    if example:
        file = resources.files("gridstead.config").joinpath("example-scenario.yaml")
        sys.stdout.write(file.read_text())
        return
    if scenario is None:
        raise typer.BadParameter("SCENARIO is missing; --example prints one")
    if html is not None and not html.parent.is_dir():
        raise InvalidInput(f"cannot write {html}", detail=f"{html.parent} is not a folder")
    # Only the simulation needs these imports.
    from gridstead.cli.html_page import write_page  # noqa: PLC0415
    from gridstead.cli.simulation_output import emit_report, report_json  # noqa: PLC0415
    from gridstead.cli.simulation_page import page  # noqa: PLC0415

    report = _simulate(_open(scenario, policy, seed), scenario.name)
    if as_json:
        emit_json(report_json(report))
    else:
        emit_report(report)
    if html is not None:
        write_page(page(report), html)
        print_note(f"wrote {html}")
    if not report.is_complete:
        raise typer.Exit(EXIT_INTERRUPTED)


def _open(path: Path, policies: list[PolicyName], seed: int | None) -> Scenario:
    """Return the scenario in a file, with the values of the options."""
    from gridstead.config.scenario_file import load_scenario  # noqa: PLC0415 - slow import
    from gridstead.wiring.simulation import open_scenario  # noqa: PLC0415 - slow import

    settings = load_scenario(path)
    changes: dict[str, object] = {}
    if policies:
        changes["policies"] = tuple(dict.fromkeys(policy.value for policy in policies))
    if seed is not None:
        changes["seed"] = seed
    return open_scenario(settings.model_copy(update=changes), path.parent)


def _simulate(scenario: Scenario, name: str) -> Report:
    """Simulate each policy, until the end or until the user interrupts it."""
    from gridstead.cli.simulation_output import Report  # noqa: PLC0415 - slow import
    from gridstead.cli.simulation_progress import (  # noqa: PLC0415 - slow import
        SimulationProgress,
        interruptible,
    )
    from gridstead.services.simulation.figures import figures_of  # noqa: PLC0415 - slow import

    duration_s = scenario.duration_s
    figures = []
    with interruptible() as interruption, SimulationProgress(duration_s) as progress:
        for policy in scenario.settings.policies:
            if interruption.is_requested:
                break
            simulator = scenario.simulator(policy)
            while simulator.outcome.now < duration_s and not interruption.is_requested:
                simulator.run(min(simulator.outcome.now + STEP_S, duration_s))
                progress.show(policy, simulator.outcome.now)
            figures.append(figures_of(simulator.outcome, scenario.grid))
    return Report(
        scenario=name,
        seed=scenario.settings.seed,
        duration_s=duration_s,
        is_complete=not interruption.is_requested,
        unsuitable_jobs=scenario.unsuitable_jobs,
        policies=tuple(figures),
    )
