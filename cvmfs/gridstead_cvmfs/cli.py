# SPDX-License-Identifier: Apache-2.0
"""`gridstead cvmfs`: manages the replicas by hand, and mounts a repository."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.status import Status

from gridstead.cli.options import Json
from gridstead.cli.output import (
    emit_error,
    emit_json,
    emit_table,
    print_line,
    print_note,
    stderr_console,
)
from gridstead.cli.service import add_run
from gridstead.config import load
from gridstead.errors import GridsteadError, InvalidInput
from gridstead_cvmfs.config import CvmfsClientSettings, CvmfsSettings, NamedRepository
from gridstead_cvmfs.domain.replica import PullResult, ReplicaState

if TYPE_CHECKING:  # the import takes a long time, and few commands need it
    from gridstead_cvmfs.services.replica import Replica

app = typer.Typer(
    help="Replicates, serves and mounts CVMFS repositories.",
    no_args_is_help=True,
)
add_run(
    app,
    "cvmfs",
    text="Replicates CVMFS repositories and serves the replicas.",
    model=CvmfsSettings,
    wiring="gridstead_cvmfs.wiring.replica",
)

MIB = 1024 * 1024
PROGRESS_EVERY_S = 10.0
SETTINGS = Path("/etc/gridstead/cvmfs.toml")
CLIENT_SETTINGS = Path("/etc/gridstead/cvmfs-client.toml")

Config = Annotated[Path, typer.Option("--config", help="Settings file.")]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[REPOSITORY]...", help="Names of repositories. Default: all repositories."
    ),
]


@app.command()
def probe(
    name: Annotated[str, typer.Argument(help="Name of the repository.")],
    url: Annotated[str, typer.Argument(help="URL of the repository on its Stratum 0.")],
    public_key: Annotated[
        list[Path],
        typer.Option("--public-key", help="PEM file of a master public key. Repeatable."),
    ],
    as_json: Json = False,
) -> None:
    """Check the signatures of a repository and print settings for it. Stores nothing."""
    from gridstead_cvmfs.wiring import replica as wiring  # noqa: PLC0415 - slow import

    keys = [path.resolve() for path in public_key]
    signed_files = wiring.probe(name, url, keys)
    manifest, whitelist = signed_files.manifest, signed_files.whitelist
    record: dict[str, object] = {
        "name": name,
        "url": url,
        "revision": manifest.revision,
        "published_at": _format_time(manifest.published_at),
        "whitelist_expires_at": _format_time(whitelist.expires_at),
        "collectable": manifest.collectable,
    }
    if as_json:
        emit_json(record)
        return
    published_at = _format_time(manifest.published_at)
    print_note(f"{name}: revision {manifest.revision}, published {published_at}, signatures valid")
    print_note(f"settings for {SETTINGS}:")
    key_list = ", ".join(f'"{key}"' for key in keys)
    print_line(f'[[repositories]]\nname = "{name}"\nurl = "{url}"\npublic_key_files = [{key_list}]')


@app.command()
def snapshot(
    names: Names = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Also read every stored object, and fetch damaged objects again."
        ),
    ] = False,
    allow_rollback: Annotated[
        bool,
        typer.Option("--allow-rollback", help="Accept a revision older than the stored one."),
    ] = False,
    config: Config = SETTINGS,
    as_json: Json = False,
) -> None:
    """Pull the newest revision now. Stored objects are not fetched again."""

    def pull(replica: Replica) -> dict[str, object]:
        with SnapshotProgress(replica.name) as progress:
            result = replica.snapshot(
                check=check, allow_rollback=allow_rollback, report=progress.report
            )
        return {
            "revision": result.revision,
            "objects": result.objects,
            "fetched": result.fetched,
            "fetched_bytes": result.fetched_bytes,
        }

    def summary(record: Mapping[str, object]) -> str:
        return "{name}: revision {revision}; {objects} objects checked, {fetched} fetched".format(
            **record
        )

    _run_on_each(names, config, pull, summary, as_json=as_json)


@app.command()
def gc(
    names: Names = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    config: Config = SETTINGS,
    as_json: Json = False,
) -> None:
    """Remove the objects of old revisions, if the publisher allows it."""

    def sweep(replica: Replica) -> dict[str, object]:
        with stderr_console.status(f"{replica.name}: searching for objects to keep"):
            result = replica.sweep(dry_run=dry_run)
        return {
            "kept": result.kept,
            "removed": result.removed,
            "removed_bytes": result.removed_bytes,
            "dry_run": dry_run,
        }

    def summary(record: Mapping[str, object]) -> str:
        verb = "would be removed" if dry_run else "removed"
        return "{name}: {removed} objects {verb}, {removed_bytes} bytes; {kept} kept".format(
            verb=verb, **record
        )

    _run_on_each(names, config, sweep, summary, as_json=as_json)


@app.command()
def status(names: Names = None, config: Config = SETTINGS, as_json: Json = False) -> None:
    """Print the served revisions and their age. Contacts no server."""
    from gridstead_cvmfs.wiring import replica as wiring  # noqa: PLC0415 - slow import

    settings = _load_settings(config, names)
    now = int(time.time())
    with wiring.open_replicas(settings, names or ()) as replicas:
        states = {replica.name: replica.state() for replica in replicas}
    records = [_status_record(name, state, now) for name, state in states.items()]
    if as_json:
        emit_json(records)
        return
    columns = (
        "REPOSITORY",
        "REVISION",
        "PUBLISHED",
        "LAST SNAPSHOT",
        "AGE S",
        "LAST GC",
        "WHITELIST EXPIRES",
        "FAILURE",
    )
    emit_table(columns, list(map(_to_row, records)))


@app.command()
def mount(
    name: Annotated[str, typer.Argument(metavar="REPOSITORY", help="Name of the repository.")],
    mountpoint: Annotated[Path, typer.Argument(help="An empty directory.")],
    config: Annotated[Path, typer.Option("--config", help="Settings file.")] = CLIENT_SETTINGS,
) -> None:
    """Mount a repository read-only until it is unmounted or the command ends. Requires root.

    The mount follows new revisions. An open file does not change. Files that were read before
    remain readable while no server answers.
    """
    from gridstead.logs import set_up  # noqa: PLC0415 - slow import
    from gridstead_cvmfs.wiring import mount as wiring  # noqa: PLC0415 - slow import

    settings = load(CvmfsClientSettings, config)
    _check_names(settings.repositories, [name], config)
    set_up(settings.log_level)
    repository = next(entry for entry in settings.repositories if entry.name == name)
    exit_code = wiring.mount(settings, repository, mountpoint)
    raise typer.Exit(exit_code)


def _status_record(name: str, state: ReplicaState, now: int) -> dict[str, object]:
    current_revision = state.current
    return {
        "name": name,
        "revision": current_revision.number if current_revision else None,
        "published_at": _format_time(current_revision.published_at) if current_revision else None,
        "last_snapshot_at": _format_time(state.last_snapshot),
        "age_s": None if state.last_snapshot is None else now - state.last_snapshot,
        "last_gc_at": _format_time(state.last_sweep),
        "whitelist_expires_at": _format_time(state.whitelist_expires_at),
        "failure": state.failure or None,
    }


def _to_row(record: Mapping[str, object]) -> list[object]:
    return ["" if field is None else field for field in record.values()]


def _run_on_each(
    names: Sequence[str] | None,
    config: Path,
    action: Callable[[Replica], dict[str, object]],
    summary: Callable[[Mapping[str, object]], str],
    *,
    as_json: bool,
) -> None:
    """Run an action on each repository. A failure does not prevent the other actions."""
    from gridstead_cvmfs.wiring import replica as wiring  # noqa: PLC0415 - slow import

    settings = _load_settings(config, names)
    records: list[dict[str, object]] = []
    failures: list[GridsteadError] = []
    with wiring.open_replicas(settings, names or ()) as replicas:
        for replica in replicas:
            try:
                records.append({"name": replica.name, **action(replica)})
            except GridsteadError as error:
                failures.append(error)
                emit_error(error, as_json=as_json)
            else:
                if not as_json:
                    print_line(summary(records[-1]))
    if as_json:
        emit_json(records)
    if failures:
        raise typer.Exit(failures[0].exit_code)


def _load_settings(config: Path, names: Sequence[str] | None) -> CvmfsSettings:
    settings = load(CvmfsSettings, config)
    _check_names(settings.repositories, names or (), config)
    return settings


def _check_names(
    repositories: Iterable[NamedRepository], names: Iterable[str], config: Path
) -> None:
    configured_names = [repository.name for repository in repositories]
    for name in names:
        if name not in configured_names:
            raise InvalidInput(
                f"no repository {name[:80]!r} in {config}",
                hint=f"The file contains: {', '.join(configured_names)}.",
            )


def _format_time(timestamp: int | None) -> str | None:
    if timestamp is None:
        return None
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


@dataclass(slots=True)
class SnapshotProgress:
    """Shows the progress of a pull: a status line on a terminal, otherwise a line every 10 s."""

    name: str
    _status: Status | None = None
    _next_line_at_s: float = field(default_factory=lambda: time.monotonic() + PROGRESS_EVERY_S)

    def __enter__(self) -> Self:
        if stderr_console.is_terminal:
            self._status = stderr_console.status(f"{self.name}: checking signatures")
            self._status.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        if self._status is not None:
            self._status.stop()

    def report(self, progress: PullResult) -> None:
        """Show the progress."""
        line = f"{self.name}: {progress.catalogs} catalogs, {progress.objects} objects checked, "
        line += f"{progress.fetched} fetched, {progress.fetched_bytes / MIB:.1f} MiB"
        if self._status is not None:
            self._status.update(line)
        elif time.monotonic() >= self._next_line_at_s:
            self._next_line_at_s = time.monotonic() + PROGRESS_EVERY_S
            print_note(line)
