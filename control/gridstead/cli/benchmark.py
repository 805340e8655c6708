# SPDX-License-Identifier: Apache-2.0
"""`gridstead provider benchmark run|report`: measures your own site, and shows the results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridstead.cli.options import Json, service_settings_path
from gridstead.cli.output import emit_json, print_line, print_note
from gridstead.cli.watch import INTERRUPTED
from gridstead.errors import InvalidInput, SchedulerUnavailable

if TYPE_CHECKING:  # Only a site has gRPC.
    from gridstead.adapters.slurm.agent import AgentClient
    from gridstead.domain.benchmarks.report import Report
    from gridstead.domain.benchmarks.selection import Selection

app = typer.Typer(no_args_is_help=True)

MAX_REPORTS = 100
SupervisorConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Settings file of the supervisor, which has the address and the certificate for the "
        "cluster agent. Default: /etc/gridstead/supervisor.toml.",
    ),
]


@app.command()
def run(
    nodes: Annotated[
        str,
        typer.Option("--nodes", metavar="A,B", help="Measure these nodes instead of all nodes."),
    ] = "",
    suite: Annotated[
        list[str],
        typer.Option("--suite", help="Run this suite instead of all suites. Repeatable."),
    ] = [],  # noqa: B006 # The list is never changed.
    config: SupervisorConfig = None,
    as_json: Json = False,
) -> None:
    """Start the benchmarks of your site, and show their progress until they end.

    Run the command on the host of the supervisor, as root. The benchmarks wait for the nodes like
    other Slurm jobs. The labels of a run with --nodes or --suite are not published.

    Ctrl-C stops the display, but not the run. With --json, each change is printed as a JSON object
    in one line, and at the end a summary.

    \b
      gridstead provider benchmark run
      gridstead provider benchmark run --nodes cn1,cn2 --suite compute
    """  # noqa: D301 - Click does not wrap the paragraph after a backspace character
    from gridstead.cli.benchmark_progress import follow  # noqa: PLC0415 - slow import
    from gridstead.domain.benchmarks.progress import RunState  # noqa: PLC0415 - slow import

    agent = _open_agent(config)
    agent.start_benchmarks(_selection(nodes, suite))
    try:
        status = follow(agent, as_json=as_json)
    except KeyboardInterrupt:
        print_note("stopped watching; the benchmarks continue")
        print_note("to see their result later: gridstead provider benchmark report")
        sys.exit(INTERRUPTED)
    if status.state is not RunState.SUCCEEDED:
        verb = "failed" if status.state is RunState.FAILED else "was interrupted"
        failure = status.progress.failure if status.progress else ""
        raise SchedulerUnavailable(f"the run of the benchmarks {verb}", detail=failure)
    _emit_summary(_last_reports(agent, 1)[-1], as_json=as_json)


@app.command()
def report(
    last: Annotated[
        int | None,
        typer.Option(
            "--last",
            min=1,
            max=MAX_REPORTS,
            help="Number of runs, for the history of the labels. Default: 1; with --html all.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write the results to an HTML page."),
    ] = None,
    config: SupervisorConfig = None,
    as_json: Json = False,
) -> None:
    """Show the results of the last run: the nodes, the labels that are left out, and slow nodes.

    Run the command on the host of the supervisor, as root. With --last, the history of the labels
    follows. With --json, the whole reports are printed, the oldest first.
    """
    from gridstead.cli import benchmark_output, benchmark_page  # noqa: PLC0415 - slow import
    from gridstead.cli.html_page import write_page  # noqa: PLC0415 - slow import

    count = last or (MAX_REPORTS if html else 1)
    reports = _last_reports(_open_agent(config), count)
    if as_json:
        emit_json(benchmark_output.reports_json(reports))
    else:
        benchmark_output.emit_reports(reports if last else reports[-1:])
    if html is not None:
        write_page(benchmark_page.page(reports), html)
        print_note(f"wrote {html}")


def _open_agent(config: Path | None) -> AgentClient:
    from gridstead.wiring.agent import open_agent_of_supervisor  # noqa: PLC0415 - slow import

    return open_agent_of_supervisor(service_settings_path("supervisor", config))


def _last_reports(agent: AgentClient, count: int) -> tuple[Report, ...]:
    """Return the newest reports, at least one. Raises InvalidInput if there is none."""
    reports = agent.last_reports(count)
    if not reports:
        raise InvalidInput(
            "there is no report of the benchmarks",
            hint="Run `gridstead provider benchmark run` to measure the site.",
        )
    return reports


def _selection(nodes: str, suites: list[str]) -> Selection:
    from gridstead.domain.benchmarks.selection import Selection  # noqa: PLC0415 - slow import

    names = [name.strip() for name in nodes.split(",")]
    return Selection(nodes=tuple(filter(None, names)), suites=tuple(suites))


def _emit_summary(newest: Report, *, as_json: bool) -> None:
    """Print the result of a run."""
    from gridstead.cli.benchmark_output import reports_json, slow_sentences  # noqa: PLC0415 - slow

    (document,) = reports_json([newest])
    if as_json:
        emit_json(_summary(document))
        return
    omission_count = len(document["omissions"])
    print_line(f"{len(document['labels'])} labels, {omission_count} left out")
    for sentence in slow_sentences(newest):
        print_line(sentence)
    print_line("details: gridstead provider benchmark report")


def _summary(document: dict[str, Any]) -> dict[str, Any]:
    keys = ("started_at", "ended_at", "nodes", "partial", "labels", "omissions", "outliers")
    return {key: document[key] for key in (*keys, "drains")}
