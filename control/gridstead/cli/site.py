# SPDX-License-Identifier: Apache-2.0
"""`gridstead provider apply|verify|plan|drift|runs`: a provider's own site, from the machine that
runs Ansible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridstead.cli.client import Json
from gridstead.cli.output import emit_json, emit_record, emit_table, say
from gridstead.cli.site_progress import SiteProgress, interruptible
from gridstead.cli.watch import INTERRUPTED, moment
from gridstead.domain.diagnostic import exit_code
from gridstead.domain.playbook import HostFinished, PlaybookRequest, RunOutcome, SitePlan
from gridstead.domain.run_record import RunRecord
from gridstead.domain.verification import Verification, to_report
from gridstead.errors import ConfigError, InvalidInput

if TYPE_CHECKING:  # Ansible is only on machines that run it
    from gridstead.ports.playbooks import DriftMetrics
    from gridstead.services.site import SiteService, RunObserver

app = typer.Typer()

Inventory = Annotated[
    str | None,
    typer.Option(
        "--inventory", "-i", help="Your inventory; without it the one that ansible.cfg names."
    ),
]
Limit = Annotated[
    str | None,
    typer.Option("--limit", "-l", help="Only these hosts or groups, as Ansible writes patterns."),
]
Tags = Annotated[
    str | None,
    typer.Option(
        "--tags", "-t", help="Only tasks with one of these tags, with commas: slurm_configure."
    ),
]
Checkout = Annotated[
    Path | None,
    typer.Option(
        "--checkout", help="Folder with the playbooks; without it the current one or one above."
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
    r"""Make your site what its inventory says: run site.yml, which ends with a verification.

    Safe to repeat: what is as it must be stays alone. `gridstead provider plan` tells before what
    would change. One interrupt (Ctrl-C) ends the run after the current task, a second one
    interrupts that; run it again to go on.

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
        say(f"{sum(map(len, record.changed.values()))} changes on {len(record.changed)} hosts")
        _emit_waiting(record)
    _end(record)


@app.command()
def verify(
    inventory: Inventory = None,
    limit: Limit = None,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """Look whether your site works: services, doors, keys, nodes. Changes nothing, is safe at any
    time.

    Looks at everything, then tells all that is wrong and who must act. The exit code is 78 if
    anything is wrong.
    """
    with _opened(checkout, "verify") as (site, watch):
        record, found = site.verify(
            PlaybookRequest(playbook="", inventory=_path(inventory), limit=limit), watch
        )
    if found is not None:
        _emit_verification(found, as_json=as_json)
    _end(record)
    if found is not None and found.diagnostics:
        raise typer.Exit(exit_code(found.diagnostics))


@app.command()
def plan(
    inventory: Inventory = None,
    limit: Limit = None,
    tags: Tags = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show what would change in files; secrets stay secret.")
    ] = False,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """Tell what `apply` would change now, and change nothing.

    Which files and services of which hosts, which daemons would restart or be reconfigured, which
    nodes would drain, and which jobs run there meanwhile. What Ansible cannot foresee in check
    mode, such as a program's own database, it does not tell.
    """
    order = PlaybookRequest(playbook="", inventory=_path(inventory), limit=limit, tags=tags)
    with _opened(checkout, "plan") as (site, watch):
        record, found = site.plan_site(order, watch)
    if found is not None:
        if as_json:
            emit_json(_plan_record(found))
        else:
            _emit_plan(found, diff=diff)
    _end(record)


@app.command()
def drift(
    inventory: Inventory = None,
    limit: Limit = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            "--metrics", help="File NAME.prom to write for node_exporter's textfile collector."
        ),
    ] = None,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    r"""Tell how far your site has drifted from its inventory: what `apply` would change. Changes
    nothing.

    The exit code is 78 if anything would change. Made for a timer, once a night:
    docs/howto/provider.md has one.

    \b gridstead provider drift -i inventory/mine --metrics
      /var/lib/prometheus/node-exporter/gridstead_drift.prom
    """
    order = PlaybookRequest(playbook="", inventory=_path(inventory), limit=limit)
    with _opened(checkout, "drift") as (site, watch):
        record, found = site.drift(order, watch, _metrics(metrics))
    if found is not None:
        if as_json:
            emit_json({"tasks": found, "changed": record.changed})
        elif record.changed:
            emit_table(
                ("HOST", "TASK"),
                [(host, task) for host, tasks in record.changed.items() for task in tasks],
            )
        else:
            say(f"{len(found)} hosts are as the inventory says")
    _end(record)
    if record.changed:
        raise typer.Exit(ConfigError.exit_code)


@app.command()
def runs(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Show this one whole.")] = None,
    checkout: Checkout = None,
    as_json: Json = False,
) -> None:
    """List what was run on your sites from this machine, by you: when, from which commit, and what
    came of it.
    """
    records = _site(checkout).runs()
    if run is not None:
        found = next((one for one in records if one.id == run), None)
        if found is None:
            raise InvalidInput(f"no run {run[:80]!r}", hint="`gridstead provider runs` lists them.")
        emit_json(asdict(found))
        return
    if as_json:
        emit_json([asdict(one) for one in records])
        return
    columns = ("RUN", "WHEN", "BY", "COMMIT", "INVENTORY", "OUTCOME", "CHANGES", "FAILED ON")
    emit_table(columns, [_row(one) for one in records])


def _row(record: RunRecord) -> tuple[object, ...]:
    at = record.circumstances
    changes = sum(map(len, record.changed.values()))
    failed = ", ".join(one.host for one in record.failed)
    return (
        record.id,
        moment(at.started_at),
        at.by,
        at.commit,
        record.inventory or "",
        record.outcome,
        changes,
        failed,
    )


def _path(inventory: str | None) -> str | None:
    """Return an inventory as Ansible finds it from its own folder: a path becomes absolute, a list
    of hosts stays.
    """
    if inventory is None or "," in inventory:
        return inventory
    path = Path(inventory).resolve()
    if not path.exists():
        raise InvalidInput(
            f"no inventory {inventory[:80]!r}",
            hint="Copy inventory/example and list your hosts in it.",
        )
    return str(path)


def _site(checkout: Path | None) -> SiteService:
    if find_spec("ansible_runner") is None:
        hint = "Run `make setup` in the checkout on the machine that runs Ansible, and use the gridstead of its .venv."
        raise ConfigError("cannot run playbooks: ansible-runner is not installed", hint=hint)
    from gridstead.wiring.site import open_site  # noqa: PLC0415 - only there, see above

    return open_site(checkout)


def _metrics(path: Path | None) -> DriftMetrics | None:
    if path is None:
        return None
    from gridstead.wiring.site import open_drift_metrics  # noqa: PLC0415 - only there, see above

    return open_drift_metrics(path)


@contextmanager
def _opened(checkout: Path | None, command: str) -> Iterator[tuple[SiteService, RunObserver]]:
    site = _site(checkout)
    from gridstead.ports.playbooks import Stop  # noqa: PLC0415 - with the rest
    from gridstead.services.site import RunObserver  # noqa: PLC0415

    stop = Stop()
    with SiteProgress(command) as progress, interruptible(stop):
        yield site, RunObserver(notify=progress.tell, stop=stop)


def _end(record: RunRecord) -> None:
    if record.outcome is RunOutcome.INTERRUPTED:
        raise typer.Exit(INTERRUPTED)


def _emit_waiting(record: RunRecord) -> None:
    for host, names in record.waiting.items():
        say(f"{host}: settings changed, not yet in force: {', '.join(names)}")


def _emit_verification(verification: Verification, *, as_json: bool) -> None:
    if as_json:
        emit_json(to_report(verification))
        return
    diagnostics = verification.diagnostics
    if not diagnostics:
        say(f"{verification.checked} checks passed on {len(verification.hosts)} hosts")
        return
    say(f"{len(diagnostics)} of {verification.checked} checks failed")
    for diagnostic in diagnostics:
        hint = f": {diagnostic.hint}" if diagnostic.hint else ""
        emit_record(
            {
                "": ", ".join(diagnostic.where),
                "must be": diagnostic.what,
                "is": diagnostic.seen,
                "must act": f"{diagnostic.who}{hint}",
            }
        )


def _plan_record(found: SitePlan) -> Mapping[str, object]:
    return {
        "changes": [
            {"host": one.host, "task": str(one.task), "targets": one.targets, "diff": one.diff}
            for one in found.changes
        ],
        "effects": [asdict(one) for one in found.effects],
        "drains": found.drains,
        "jobs": None
        if found.jobs is None
        else {h: [asdict(job) for job in jobs] for h, jobs in found.jobs.items()},
    }


def _emit_plan(found: SitePlan, *, diff: bool) -> None:
    if not found.changes and not found.effects:
        say("nothing would change")
        return
    emit_table(
        ("HOST", "TASK", "OF"),
        [(one.host, one.task, ", ".join(one.targets)) for one in found.changes],
    )
    if diff:
        for one in found.changes:
            _emit_diff(one)
    say("")
    jobs = found.jobs
    for effect in found.effects:
        say(f"{effect.host}: {effect}")
    if found.drains:
        say(f"drain first: {', '.join(found.drains)} (playbooks/drain.yml waits for their jobs)")
    if jobs is None:
        say("which jobs are in the way is not known: Slurm could not be asked")
        return
    for host, there in jobs.items():
        if there:
            listed = ", ".join(f"{job.id} of {job.user} until {job.ends_at}" for job in there)
            say(f"{len(there)} jobs run on {host}: {listed}")


def _emit_diff(change: HostFinished) -> None:
    if change.diff:
        say(f"{change.host}, {change.task}")
        say(change.diff)
