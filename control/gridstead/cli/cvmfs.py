# SPDX-License-Identifier: Apache-2.0
"""`gridstead cvmfs`: the replicas by hand, beside the service that pulls and serves them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.status import Status

from gridstead.cli.client import Json
from gridstead.cli.output import emit_error, emit_json, emit_table, errors, say, tell
from gridstead.config import CvmfsClientSettings, CvmfsSettings, Named, load
from gridstead.domain.cvmfs.replica import Pulled, ReplicaState
from gridstead.errors import GridsteadError, InvalidInput
from gridstead.logs import set_up

if TYPE_CHECKING:  # the web server's library takes long to import; only commands that need it do
    from gridstead.services.cvmfs import Replica

app = typer.Typer()

MIB = 1024 * 1024
LINE_EVERY_S = 10.0
SETTINGS = Path("/etc/gridstead/cvmfs.toml")
CLIENT_SETTINGS = Path("/etc/gridstead/cvmfs-client.toml")

Config = Annotated[Path, typer.Option("--config", help="Settings file.")]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[REPOSITORY]...", help="Names of repositories; all when none is given."
    ),
]


@app.command()
def probe(
    name: Annotated[str, typer.Argument(help="Name of the repository.")],
    url: Annotated[str, typer.Argument(help="Where its Stratum 0 serves it.")],
    public_key: Annotated[
        list[Path],
        typer.Option("--public-key", help="PEM of a master public key; repeat it for several."),
    ],
    as_json: Json = False,
) -> None:
    """Check a repository's signatures and print the settings that add it; stores nothing."""
    from gridstead.wiring import cvmfs as wiring  # noqa: PLC0415 - takes long to import

    keys = [path.resolve() for path in public_key]
    signed_files = wiring.probe(name, url, keys)
    manifest, whitelist = signed_files.manifest, signed_files.whitelist
    record: dict[str, object] = {
        "name": name,
        "url": url,
        "revision": manifest.revision,
        "published_at": _time(manifest.published_at),
        "whitelist_expires_at": _time(whitelist.expires_at),
        "collectable": manifest.collectable,
    }
    if as_json:
        emit_json(record)
        return
    tell(f"{name}: revision {manifest.revision} of {_time(manifest.published_at)}, good signatures")
    tell(f"for {SETTINGS}:")
    listed = ", ".join(f'"{key}"' for key in keys)
    say(f'[[repositories]]\nname = "{name}"\nurl = "{url}"\npublic_key_files = [{listed}]')


@app.command()
def snapshot(
    names: Names = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Read every object that is here too, and fetch again what is damaged."
        ),
    ] = False,
    allow_rollback: Annotated[
        bool,
        typer.Option("--allow-rollback", help="Take an older revision than the one that is here."),
    ] = False,
    config: Config = SETTINGS,
    as_json: Json = False,
) -> None:
    """Pull the newest revision now; what is here is not fetched again, also after an interruption."""

    def pull(replica: Replica) -> dict[str, object]:
        with SnapshotProgress(replica.name) as progress:
            done = replica.snapshot(check=check, allow_rollback=allow_rollback, tell=progress.tell)
        return {
            "revision": done.revision,
            "objects": done.objects,
            "fetched": done.fetched,
            "fetched_bytes": done.fetched_bytes,
        }

    def sentence(done: Mapping[str, object]) -> str:
        return "{name}: revision {revision}; {objects} objects looked at, {fetched} fetched".format(
            **done
        )

    _each(names, config, pull, sentence, as_json=as_json)


@app.command()
def gc(
    names: Names = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be removed.")
    ] = False,
    config: Config = SETTINGS,
    as_json: Json = False,
) -> None:
    """Remove objects that no kept revision names, where the publisher lets go of old revisions."""

    def sweep(replica: Replica) -> dict[str, object]:
        with errors.status(f"{replica.name}: looking for what is still named"):
            done = replica.sweep(dry_run=dry_run)
        return {
            "kept": done.kept,
            "removed": done.removed,
            "removed_bytes": done.removed_bytes,
            "dry_run": dry_run,
        }

    def sentence(done: Mapping[str, object]) -> str:
        verb = "would be removed" if dry_run else "removed"
        return "{name}: {removed} objects {verb}, {removed_bytes} bytes; {kept} stay".format(
            verb=verb, **done
        )

    _each(names, config, sweep, sentence, as_json=as_json)


@app.command()
def status(names: Names = None, config: Config = SETTINGS, as_json: Json = False) -> None:
    """Show what is served and how fresh it is; contacts nothing."""
    from gridstead.wiring import cvmfs as wiring  # noqa: PLC0415 - takes long to import

    settings = _load(config, names)
    now = int(time.time())
    with wiring.open_replicas(settings, names or ()) as replicas:
        states = {replica.name: replica.state() for replica in replicas}
    if as_json:
        emit_json([_record(name, state, now) for name, state in states.items()])
        return
    rows = [list(_record(name, state, now).values()) for name, state in states.items()]
    columns = (
        "REPOSITORY",
        "REVISION",
        "PUBLISHED",
        "LAST SNAPSHOT",
        "AGE S",
        "LAST GC",
        "WHITELIST UNTIL",
        "FAILURE",
    )
    emit_table(columns, [["" if cell is None else cell for cell in row] for row in rows])


@app.command()
def mount(
    name: Annotated[str, typer.Argument(metavar="REPOSITORY", help="Name of the repository.")],
    mountpoint: Annotated[Path, typer.Argument(help="An empty directory.")],
    config: Annotated[Path, typer.Option("--config", help="Settings file.")] = CLIENT_SETTINGS,
) -> None:
    """Mount a repository, to read, until it is unmounted or the command ends; for root.

    Follows new revisions. What is open stays what it was; what was read stays readable while no
    server answers.
    """
    from gridstead.wiring import cvmfs_mount as wiring  # noqa: PLC0415 - takes long to import

    settings = load(CvmfsClientSettings, config)
    _check_known(settings.repositories, [name], config)
    set_up(settings.log_level)
    code = wiring.mount(
        settings, next(one for one in settings.repositories if one.name == name), mountpoint
    )
    raise typer.Exit(code)


def _record(name: str, state: ReplicaState, now: int) -> dict[str, object]:
    current = state.current
    return {
        "name": name,
        "revision": current.number if current else None,
        "published_at": _time(current.published_at) if current else None,
        "last_snapshot_at": _time(state.last_snapshot),
        "age_s": None if state.last_snapshot is None else now - state.last_snapshot,
        "last_gc_at": _time(state.last_sweep),
        "whitelist_expires_at": _time(state.whitelist_expires_at),
        "failure": state.failure or None,
    }


def _each(
    names: Sequence[str] | None,
    config: Path,
    do: Callable[[Replica], dict[str, object]],
    sentence: Callable[[Mapping[str, object]], str],
    *,
    as_json: bool,
) -> None:
    """Do it to one repository after the other; a failure of one does not keep the others from it."""
    from gridstead.wiring import cvmfs as wiring  # noqa: PLC0415 - takes long to import

    settings = _load(config, names)
    done: list[dict[str, object]] = []
    failures: list[GridsteadError] = []
    with wiring.open_replicas(settings, names or ()) as replicas:
        for replica in replicas:
            try:
                done.append({"name": replica.name, **do(replica)})
            except GridsteadError as error:
                failures.append(error)
                emit_error(error, as_json=as_json)
            else:
                if not as_json:
                    say(sentence(done[-1]))
    if as_json:
        emit_json(done)
    if failures:
        raise typer.Exit(failures[0].exit_code)


def _load(config: Path, names: Sequence[str] | None) -> CvmfsSettings:
    settings = load(CvmfsSettings, config)
    _check_known(settings.repositories, names or (), config)
    return settings


def _check_known(repositories: Iterable[Named], names: Iterable[str], config: Path) -> None:
    known = [one.name for one in repositories]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidInput(
            f"no repository {unknown[0][:80]!r} in {config}", hint=f"There are: {', '.join(known)}."
        )


def _time(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


@dataclass(slots=True)
class SnapshotProgress:
    """Shows how far a pull is: on a terminal at once, elsewhere a line now and then."""

    name: str
    _status: Status | None = None
    _next_s: float = field(default_factory=lambda: time.monotonic() + LINE_EVERY_S)

    def __enter__(self) -> Self:
        if errors.is_terminal:
            self._status = errors.status(f"{self.name}: checking signatures")
            self._status.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        if self._status is not None:
            self._status.stop()

    def tell(self, done: Pulled) -> None:
        """Show it."""
        line = f"{self.name}: {done.catalogs} catalogs, {done.objects} objects looked at, "
        line += f"{done.fetched} fetched, {done.fetched_bytes / MIB:.1f} MiB"
        if self._status is not None:
            self._status.update(line)
        elif time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + LINE_EVERY_S
            tell(line)
