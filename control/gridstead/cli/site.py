# SPDX-License-Identifier: Apache-2.0
"""`gridstead provider apply|verify|plan|drift|runs`: commands that run Ansible on your own site."""

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
from gridstead.cli.watch import INTERRUPTED, moment
from gridstead.domain.diagnostic import exit_code
from gridstead.domain.site.playbook import HostFinished, PlaybookRequest, RunOutcome, SitePlan
from gridstead.domain.site.run_record import RunRecord
from gridstead.domain.site.verification import Verification, to_report
from gridstead.errors import ConfigError, InvalidInput

if TYPE_CHECKING:  # Ansible is installed only on machines that run playbooks
    from gridstead.ports.site import DriftMetrics
    from gridstead.services.site.site import RunObserver, SiteService

app = typer.Typer()

Inventory = Annotated[
    str | None,
    typer.Option("--inventory", "-i", help="Your inventory; default is the one in ansible.cfg."),
]
Limit = Annotated[
    str | None,
    typer.Option("--limit", "-l", help="Run only on these hosts or groups (an Ansible pattern)."),
]
Tags = Annotated[
    str | None,
    typer.Option(
        "--tags", "-t", help="Run only tasks with these tags, comma-separated: slurm_configure."
    ),
]
Checkout = Annotated[
    Path | None,
    typer.Option(
        "--checkout", help="Folder with the playbooks; default is the current or a parent folder."
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
    r"""Configure your site as its inventory says: run site.yml, which also verifies the site.

    The command is idempotent. `gridstead provider plan` shows in advance what would change. Ctrl-C
    ends the run after the current task; a second Ctrl-C interrupts the task. Run the command again
    to continue.

    \b
      gridstead provider apply -i inventory/mine
      gridstead provider apply -i inventory/mine --limit compute3
    """
    order = PlaybookRequest(playbook="", inventory=_path(inventory), limit=limit, tags=tags)
    with _opened(checkout, "apply") as (site, watch):
        record = site.apply(order, watch)
    if as_json:
        emit_json(asdict(record))
    else:
        changes = sum(map(len, record.changed.values()))
        print_line(f"{changes} changes on {len(record.changed)} hosts")
        _emit_waiting(record)
    _exit_if_interrupted(record)


@app.command()
def verify(
    inventory: Inventory = None,
    limit: Limit = None,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """Check that your site works: services, open ports, keys, nodes. It changes nothing.

    All checks are run, then all findings are printed, with who must act. The exit code is 78 if
    there is a finding.
    """
    order = PlaybookRequest(playbook="", inventory=_path(inventory), limit=limit)
    with _opened(checkout, "verify") as (site, watch):
        record, verification = site.verify(order, watch)
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
        bool, typer.Option("--diff", help="Show the changes of files, except of secret files.")
    ] = False,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """Show what `apply` would change now. It changes nothing.

    The output has the files and services that would change on each host, the daemons that would be
    restarted or reconfigured, the nodes that would be drained, and the jobs that run on them.
    Changes that Ansible cannot detect in check mode are not shown, such as in a database.
    """
    order = PlaybookRequest(playbook="", inventory=_path(inventory), limit=limit, tags=tags)
    with _opened(checkout, "plan") as (site, watch):
        record, site_plan = site.plan_site(order, watch)
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
            "--metrics", help="File NAME.prom to write, for node_exporter's textfile collector."
        ),
    ] = None,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    r"""Show the drift of your site: what `apply` would change. It changes nothing.

    The exit code is 78 if anything would change. Run it from a timer, for example every night; see
    docs/howto/provider.md.

    \b
      gridstead provider drift -i inventory/mine \
        --metrics /var/lib/prometheus/node-exporter/gridstead_drift.prom
    """
    order = PlaybookRequest(playbook="", inventory=_path(inventory), limit=limit)
    with _opened(checkout, "drift") as (site, watch):
        record, task_counts = site.drift(order, watch, _metrics(metrics))
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
        str | None, typer.Argument(metavar="[RUN]", help="Show all fields of this run.")
    ] = None,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """List your runs on your sites from this machine: time, commit, and outcome."""
    records = _site(checkout).runs()
    if run is not None:
        selected = [record for record in records if record.id == run]
        if not selected:
            hint = "Run `gridstead provider runs` to list the runs."
            raise InvalidInput(f"there is no run {run[:80]!r}", hint=hint)
        emit_json(asdict(selected[0]))
        return
    if as_json:
        emit_json(list(map(asdict, records)))
        return
    columns = ("RUN", "WHEN", "BY", "COMMIT", "INVENTORY", "OUTCOME", "CHANGES", "FAILED ON")
    emit_table(columns, list(map(_row, records)))


def _row(record: RunRecord) -> tuple[object, ...]:
    circumstances = record.circumstances
    changes = sum(map(len, record.changed.values()))
    failed = ", ".join(failure.host for failure in record.failed)
    return (
        record.id,
        moment(circumstances.started_at),
        circumstances.by,
        circumstances.commit,
        record.inventory or "",
        record.outcome,
        changes,
        failed,
    )


def _path(inventory: str | None) -> str | None:
    """Return an inventory for Ansible, which runs in another folder.

    A path is made absolute; a comma-separated list of hosts is returned unchanged.
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


def _site(checkout: Path | None) -> SiteService:
    if find_spec("ansible_runner") is None:
        hint = "Run `make setup` in the checkout, and use the gridstead command of its .venv."
        raise ConfigError("cannot run playbooks: ansible-runner is not installed", hint=hint)
    from gridstead.wiring.site import open_site  # noqa: PLC0415 - needs Ansible, see above

    return open_site(checkout)


def _metrics(path: Path | None) -> DriftMetrics | None:
    if path is None:
        return None
    from gridstead.wiring.site import open_drift_metrics  # noqa: PLC0415 - needs Ansible, see above

    return open_drift_metrics(path)


@contextmanager
def _opened(checkout: Path | None, command: str) -> Iterator[tuple[SiteService, RunObserver]]:
    site = _site(checkout)
    from gridstead.ports.site import Stop  # noqa: PLC0415 - needs Ansible, see above
    from gridstead.services.site.site import RunObserver  # noqa: PLC0415 - needs Ansible, see above

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
    checks, diagnostics = verification.checked, verification.diagnostics
    if not diagnostics:
        print_line(f"{checks} checks passed on {len(verification.hosts)} hosts")
        return
    print_line(f"{len(diagnostics)} of {checks} checks failed")
    for diagnostic in diagnostics:
        action = f"{diagnostic.who}: {diagnostic.hint}" if diagnostic.hint else diagnostic.who
        record = {"must be": diagnostic.what, "is": diagnostic.seen, "must act": action}
        emit_record({"": ", ".join(diagnostic.where)} | record)


def _emit_drift(changed: Mapping[str, Iterable[str]]) -> None:
    rows = []
    for host, tasks in changed.items():
        rows += [(host, task) for task in tasks]
    emit_table(("HOST", "TASK"), rows)


def _plan_json(site_plan: SitePlan) -> Mapping[str, object]:
    jobs: dict[str, object] | None = None
    if site_plan.jobs is not None:
        jobs = {host: list(map(asdict, on_host)) for host, on_host in site_plan.jobs.items()}
    return {
        "changes": list(map(_change_json, site_plan.changes)),
        "effects": list(map(asdict, site_plan.effects)),
        "drains": site_plan.drains,
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
    emit_table(("HOST", "TASK", "OF"), rows)
    if diff:
        for change in site_plan.changes:
            _emit_diff(change)
    print_line("")
    for effect in site_plan.effects:
        print_line(f"{effect.host}: {effect}")
    if site_plan.drains:
        nodes = ", ".join(site_plan.drains)
        print_line(f"drain first: {nodes} (playbooks/drain.yml waits for their jobs)")
    if site_plan.jobs is None:
        print_line("the jobs on these nodes are unknown, because Slurm does not answer")
        return
    for host, jobs in site_plan.jobs.items():
        if jobs:
            listed = ", ".join(f"{job.id} of {job.user} until {job.ends_at}" for job in jobs)
            print_line(f"{len(jobs)} jobs run on {host}: {listed}")


def _emit_diff(change: HostFinished) -> None:
    if change.diff:
        print_line(f"{change.host}, {change.task}")
        print_line(change.diff)
