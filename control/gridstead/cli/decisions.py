# SPDX-License-Identifier: Apache-2.0
"""`gridstead decisions`: shows and verifies the decision log of the meta-scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.client import client_settings_path
from gridstead.cli.options import Config, Json
from gridstead.cli.output import emit_json, emit_result, emit_table
from gridstead.domain.jobs.ids import parse_address
from gridstead.domain.matching.decision_log import SignedRecord, verify
from gridstead.errors import ConfigError, InvalidInput

app = typer.Typer(
    no_args_is_help=True,
    help="""Show and verify the decisions of the meta-scheduler.

    The meta-scheduler signs a record of each decision that has matches. Each record contains the
    hash of the record before it, so a change of an earlier record is detected.
    docs/reference/decision-log.md describes the records.""",
)
First = Annotated[
    int, typer.Option("--from", metavar="N", min=0, help="Number of the first record.")
]


@app.command("log")
def show_log(first: First = 0, config: Config = None, as_json: Json = False) -> None:
    """List the records of the decision log: number, block, number of matches and hash.

    The records come from the queue view that `queue_url` in your settings names. They are not
    verified. With --json, also print the texts and the signatures, from which another program can
    verify the records.
    """
    records = list(_records(config, first))
    if as_json:
        emit_json([asdict(record) | {"hash": record.hash} for record in records])
        return
    rows = [_row(record) for record in records]
    emit_table(("RECORD", "BLOCK", "MATCHES", "HASH"), rows)


@app.command("verify")
def verify_log(
    first: First = 0,
    signer: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Fail if another wallet than this one signed a record."
        ),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check the numbers, the hashes and the signatures of the records of the decision log.

    The records come from the queue view that `queue_url` in your settings names. The command prints
    the signers, but does not check that they are meta-schedulers of the grid. `gridstead contracts
    status` lists the wallets with this role. The decisions themselves are not repeated.
    """
    from gridstead.adapters.chain.wallet import recover  # noqa: PLC0415 - slow import

    expected_signer = parse_address(signer) if signer else None
    summary = verify(_records(config, first), signer_of=recover)
    others = sorted(summary.signers - {expected_signer})
    if expected_signer is not None and others:
        raise InvalidInput(
            "the decision log has another signer",
            detail=f"{', '.join(others)} instead of {expected_signer}",
        )
    signers = sorted(summary.signers)
    record = {
        "records": summary.record_count,
        "matches": summary.match_count,
        "signers": signers,
        "last_hash": summary.last_hash,
    }
    sentence = f"{summary.record_count} records with {summary.match_count} matches are valid"
    if signers:
        sentence += f", signed by {', '.join(signers)}; the last hash is {summary.last_hash}"
    emit_result(record, sentence, as_json=as_json)


def _records(config: Path | None, first: int) -> Iterator[SignedRecord]:
    from gridstead.adapters.matching.decisions import read_decisions  # noqa: PLC0415 - slow import
    from gridstead.config import ClientSettings, load  # noqa: PLC0415 - slow import

    path = client_settings_path(config)
    settings = load(ClientSettings, path)
    if settings.queue_url is None:
        raise ConfigError(
            "cannot read the decision log",
            detail=f"{path} has no queue_url",
            hint="Set queue_url to the URL of the queue view. The grid's operator has it.",
        )
    return read_decisions(settings.queue_url, first=first, ca=settings.ca_file)


def _row(record: SignedRecord) -> tuple[object, ...]:
    """Return the cells of a record that was not verified."""
    try:
        fields = json.loads(record.text)
        return record.number, fields["block"]["number"], len(fields["matches"]), record.hash
    except (ValueError, KeyError, TypeError):
        return record.number, "?", "?", record.hash
