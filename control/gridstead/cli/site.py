# SPDX-License-Identifier: Apache-2.0
"""`gridstead provider apply|verify|plan|drift|runs`: runs Ansible on your own site."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridstead.cli.options import Json
from gridstead.cli.output import emit_json, emit_record, emit_table, print_line
from gridstead.cli.site_progress import SiteProgress, interruptible
from gridstead.cli.watch import INTERRUPTED, format_time
from gridstead.domain.diagnostic import exit_code
from gridstead.domain.site.playbook import HostFinished, PlaybookRequest, RunOutcome, SitePlan
from gridstead.domain.site.run_record import RunRecord
from gridstead.domain.site.verification import Verification, to_report
from gridstead.errors import ConfigError, InvalidInput

if TYPE_CHECKING:  # Ansible is installed only on hosts that run playbooks.
    from gridstead.ports.site import DriftMetrics
    from gridstead.services.site.site import RunObserver, SiteService

app = typer.Typer()

Inventory = Annotated[
    str | None,
    typer.Option(
        "--inventory", "-i", help="Your inventory. Default: the inventory in ansible.cfg."
    ),
]
Limit = Annotated[
    str | None,
    typer.Option("--limit", "-l", help="Run only on these hosts or groups (an Ansible pattern)."),
]
Tags = Annotated[
    str | None,
    typer.Option(
        "--tags",
        "-t",
        help="Run only tasks with these tags, comma-separated, such as slurm_configure.",
    ),
]
Checkout = Annotated[
    Path | None,
    typer.Option(
        "--checkout",
        help="Folder with the playbooks. Default: the current folder or a parent of it.",
    ),
]


@app.command()
def apply(
    inventory: Inventory = None,
    limit: Limit = None,
    tags: Tags = None,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """Configure your site as its inventory describes: run site.yml, which also verifies the site.

    The command is idempotent. To see in advance what it would change, use `gridstead provider
    plan`. Ctrl-C ends the run after the current task. A second Ctrl-C interrupts the task. To
    continue, run the command again.

    \b
      gridstead provider apply -i inventory/mine
      gridstead provider apply -i inventory/mine --limit compute3
    """  # noqa: D301 - Click does not wrap the paragraph after a backspace character
    request = PlaybookRequest(
        playbook="", inventory=_inventory_path(inventory), limit=limit, tags=tags
    )
    with _open_site_for_run(checkout, "apply") as (site, observer):
        record = site.apply(request, observer)
    if as_json:
        emit_json(asdict(record))
    else:
        print_line(f"{_change_count(record)} changes on {len(record.changed)} hosts")
        _emit_waiting(record)
    _exit_if_interrupted(record)


@app.command()
def verify(
    inventory: Inventory = None,
    limit: Limit = None,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """Check that your site works: services, open ports, keys, nodes. The command changes nothing.

    The command runs all checks and then prints all findings. Each finding names the person who must
    act. The exit code is 78 if there is a finding.
    """
    request = PlaybookRequest(playbook="", inventory=_inventory_path(inventory), limit=limit)
    with _open_site_for_run(checkout, "verify") as (site, observer):
        record, verification = site.verify(request, observer)
    if verification is not None:
        _emit_verification(verification, as_json=as_json)
    _exit_if_interrupted(record)
    if verification is not None and verification.diagnostics:
        raise typer.Exit(exit_code(verification.diagnostics))


@app.command("plan")
def show_plan(
    inventory: Inventory = None,
    limit: Limit = None,
    tags: Tags = None,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff", help="Also show the changed lines of files, except of files with secrets."
        ),
    ] = False,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """Show what `apply` would change now. The command changes nothing.

    The output lists the files and services that would change on each host, the daemons that would
    be restarted or reconfigured, the nodes that must be drained first, and the jobs that run on
    these nodes. Changes that Ansible cannot detect in check mode, such as changes in a database,
    are not listed.
    """
    request = PlaybookRequest(
        playbook="", inventory=_inventory_path(inventory), limit=limit, tags=tags
    )
    with _open_site_for_run(checkout, "plan") as (site, observer):
        record, site_plan = site.plan_site(request, observer)
    if site_plan is not None:
        if as_json:
            emit_json(_plan_json(site_plan))
        else:
            _emit_plan(site_plan, diff=diff)
    _exit_if_interrupted(record)


@app.command()
def drift(
    inventory: Inventory = None,
    limit: Limit = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            "--metrics",
            help="File NAME.prom to write, for the textfile collector of node_exporter.",
        ),
    ] = None,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """Check your site for drift: list the tasks of `apply` that would change something.

    The command changes nothing. The exit code is 78 if something would change. Run it from a timer,
    for example every night. docs/howto/provider.md describes this.

    \b
      gridstead provider drift -i inventory/mine \\
        --metrics /var/lib/prometheus/node-exporter/gridstead_drift.prom
    """  # noqa: D301 - as above
    request = PlaybookRequest(playbook="", inventory=_inventory_path(inventory), limit=limit)
    with _open_site_for_run(checkout, "drift") as (site, observer):
        record, task_counts = site.drift(request, observer, _drift_metrics(metrics))
    if task_counts is not None:
        if as_json:
            emit_json({"tasks": task_counts, "changed": record.changed})
        elif record.changed:
            _emit_drift(record.changed)
        else:
            print_line(f"no drift on {len(task_counts)} hosts")
    _exit_if_interrupted(record)
    if record.changed:
        raise typer.Exit(ConfigError.exit_code)


@app.command()
def runs(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Show only this run, with all its fields.")
    ] = None,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """List the playbook runs that you started on this machine: time, commit and outcome."""
    records = _open_site(checkout).runs()
    if run is not None:
        record = _find_run(records, run)
        emit_json(asdict(record))
        return
    if as_json:
        emit_json(list(map(asdict, records)))
        return
    columns = ("RUN", "WHEN", "BY", "COMMIT", "INVENTORY", "OUTCOME", "CHANGES", "FAILED ON")
    emit_table(columns, list(map(_run_row, records)))


def _find_run(records: Iterable[RunRecord], run: str) -> RunRecord:
    for record in records:
        if record.id == run:
            return record
    hint = "Run `gridstead provider runs` to list the runs."
    raise InvalidInput(f"there is no run {run[:80]!r}", hint=hint)


def _run_row(record: RunRecord) -> tuple[object, ...]:
    circumstances = record.circumstances
    failed_hosts = ", ".join(failure.host for failure in record.failed)
    return (
        record.id,
        format_time(circumstances.started_at),
        circumstances.by,
        circumstances.commit,
        record.inventory or "",
        record.outcome,
        _change_count(record),
        failed_hosts,
    )


def _change_count(record: RunRecord) -> int:
    """Return how many tasks changed something, on all hosts together."""
    return sum(map(len, record.changed.values()))


def _inventory_path(inventory: str | None) -> str | None:
    """Return an inventory that is valid in any folder, because Ansible runs in another folder.

    A path becomes absolute. A comma-separated list of hosts is returned unchanged.

    Raises:
        InvalidInput: If the path does not exist.
    """
    if inventory is None or "," in inventory:
        return inventory
    path = Path(inventory).resolve()
    if not path.exists():
        raise InvalidInput(
            f"there is no inventory {inventory[:80]!r}",
            hint="Copy inventory/example and list your hosts in it.",
        )
    return str(path)


def _open_site(checkout: Path | None) -> SiteService:
    if find_spec("ansible_runner") is None:
        hint = "Run `make setup` in the checkout, and use the gridstead command of its .venv."
        raise ConfigError("cannot run playbooks: ansible-runner is not installed", hint=hint)
    from gridstead.wiring.site import open_site  # noqa: PLC0415 - needs Ansible

    return open_site(checkout)


def _drift_metrics(path: Path | None) -> DriftMetrics | None:
    if path is None:
        return None
    from gridstead.wiring.site import open_drift_metrics  # noqa: PLC0415 - needs Ansible

    return open_drift_metrics(path)


@contextmanager
def _open_site_for_run(
    checkout: Path | None, command: str
) -> Iterator[tuple[SiteService, RunObserver]]:
    """Yield the site, and an observer that shows the progress and stops the run on Ctrl-C."""
    site = _open_site(checkout)
    from gridstead.ports.site import Stop  # noqa: PLC0415 - needs Ansible
    from gridstead.services.site.site import RunObserver  # noqa: PLC0415 - needs Ansible

    stop = Stop()
    with SiteProgress(command) as progress, interruptible(stop):
        yield site, RunObserver(notify=progress.show, stop=stop)


def _exit_if_interrupted(record: RunRecord) -> None:
    if record.outcome is RunOutcome.INTERRUPTED:
        raise typer.Exit(INTERRUPTED)


def _emit_waiting(record: RunRecord) -> None:
    for host, names in record.waiting.items():
        print_line(f"{host}: changed settings that need a restart: {', '.join(names)}")


def _emit_verification(verification: Verification, *, as_json: bool) -> None:
    if as_json:
        emit_json(to_report(verification))
        return
    checks = verification.check_count
    diagnostics = verification.diagnostics
    if not diagnostics:
        print_line(f"{checks} checks passed on {len(verification.hosts)} hosts")
        return
    print_line(f"{len(diagnostics)} of {checks} checks failed")
    for diagnostic in diagnostics:
        action = f"{diagnostic.who}: {diagnostic.hint}" if diagnostic.hint else diagnostic.who
        location = ", ".join(diagnostic.where)
        emit_record(
            {"": location, "must be": diagnostic.what, "is": diagnostic.actual, "must act": action}
        )


def _emit_drift(changed: Mapping[str, Iterable[str]]) -> None:
    rows = []
    for host, tasks in changed.items():
        for task in tasks:
            rows.append((host, task))  # noqa: PERF401 - a nested comprehension is harder to read
    emit_table(("HOST", "TASK"), rows)


def _plan_json(site_plan: SitePlan) -> Mapping[str, object]:
    jobs: dict[str, object] | None = None
    if site_plan.jobs is not None:
        jobs = {}
        for host, jobs_of_host in site_plan.jobs.items():
            jobs[host] = list(map(asdict, jobs_of_host))
    return {
        "changes": list(map(_change_json, site_plan.changes)),
        "effects": list(map(asdict, site_plan.effects)),
        "drains": site_plan.nodes_to_drain,
        "jobs": jobs,
    }


def _change_json(change: HostFinished) -> dict[str, object]:
    return {
        "host": change.host,
        "task": str(change.task),
        "targets": change.targets,
        "diff": change.diff,
    }


def _emit_plan(site_plan: SitePlan, *, diff: bool) -> None:
    if not site_plan.changes and not site_plan.effects:
        print_line("nothing would change")
        return
    rows = [(change.host, change.task, ", ".join(change.targets)) for change in site_plan.changes]
    emit_table(("HOST", "TASK", "TARGETS"), rows)
    if diff:
        for change in site_plan.changes:
            _emit_diff(change)
    print_line("")
    for effect in site_plan.effects:
        print_line(f"{effect.host}: {effect}")
    if site_plan.nodes_to_drain:
        nodes = ", ".join(site_plan.nodes_to_drain)
        print_line(f"drain first: {nodes} (playbooks/drain.yml waits for their jobs)")
    if site_plan.jobs is None:
        print_line("the jobs on these nodes are unknown, because Slurm does not answer")
        return
    for host, jobs in site_plan.jobs.items():
        if jobs:
            texts = [f"{job.id} of {job.user} until {job.ends_at}" for job in jobs]
            print_line(f"{len(jobs)} jobs run on {host}: {', '.join(texts)}")


def _emit_diff(change: HostFinished) -> None:
    if change.diff:
        print_line(f"{change.host}, {change.task}")
        print_line(change.diff)
