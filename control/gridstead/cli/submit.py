# SPDX-License-Identifier: Apache-2.0
"""`gridstead submit`: from a workflow to a job."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridstead.cli.client import Config, GridClient, Json, exit_code, open_client, to_json
from gridstead.cli.output import credits_text, emit_done, parse_credits, tell
from gridstead.cli.watch import INTERRUPTED
from gridstead.cli.watch import watch as watch_job
from gridstead.cli.workflow import Strict, read_workflow
from gridstead.domain.billing import Resources
from gridstead.domain.job import Affinity, Label
from gridstead.domain.lifecycle import JobState
from gridstead.errors import InvalidInput
from gridstead.workflow.schema import Workflow

if TYPE_CHECKING:
    from gridstead.adapters.chain.customer import JobRequest

NAME_BYTES = 32

_USE = re.compile(r"([^=<>!]+)=(.*)")
_AFFINITY = re.compile(r"([^=<>!:]+)(<=|>=|==|!=|<|>|=|:in:)(.*)")


def submit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Workflow, YAML; - for standard input.")
    ],
    credits_: Annotated[
        str, typer.Option("--credits", help="Credits to lock; what is not used comes back.")
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="At most 32 bytes; the file's name if not given.")
    ] = None,
    uses: Annotated[
        list[str] | None,
        typer.Option("--uses", help="Label that the provider must have: key=value."),
    ] = None,
    affinity: Annotated[
        list[str] | None,
        typer.Option("--affinity", help="Condition on a label: key>=value, key:in:text."),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            "-w",
            help="Stay and show states, output and cost; Ctrl-C leaves the job alone.",
        ),
    ] = False,
    use_exit_code: Annotated[
        bool, typer.Option("--exit-code", "-e", help="With --watch: end with the job's exit code.")
    ] = False,
    strict: Strict = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Submit a workflow: store its script, lock credits, ask for a job.

    What is wrong with the workflow, the options, your key or your credits is told before anything
    is stored or sent.
    """
    if use_exit_code and not watch:
        raise InvalidInput(
            "--exit-code needs --watch", hint="Without --watch nobody waits for the job's end."
        )
    workflow = read_workflow(file, strict=strict)
    request = _request(
        workflow, parse_credits(credits_), _name(name, file), uses or (), affinity or ()
    )
    client = open_client(config)
    number = _ask(client, workflow, request)
    if watch:
        end = watch_job(client, number, as_json=as_json)
        if use_exit_code:
            sys.exit(exit_code(end) or (0 if end.state is JobState.FINISHED else 1))
        return
    locked = f"job {number} asks for a provider; {credits_text(request.escrow)} credits are locked"
    emit_done(
        to_json(client.job(number)),
        f"{locked}\nfollow it: gridstead job watch {number}",
        as_json=as_json,
    )


def _request(
    workflow: Workflow, escrow: int, name: str, uses: Iterable[str], affinity: Iterable[str]
) -> JobRequest:
    """Return the request of the job, whose script is not stored yet."""
    from gridstead.adapters.chain.customer import JobRequest  # noqa: PLC0415 - takes a second to import

    asked = workflow.resources
    resources = Resources(
        gpus=asked.gpus,
        tasks=asked.tasks,
        cpus_per_task=asked.cpus_per_task,
        memory_per_cpu_mb=asked.mem_per_cpu,
    )
    return JobRequest(
        resources=resources,
        batch_location_hash="",
        escrow=escrow,
        name=name,
        uses=tuple(_use(one) for one in uses),
        affinity=tuple(_affinity(one) for one in affinity),
    )


def _ask(client: GridClient, workflow: Workflow, request: JobRequest) -> int:
    from gridstead.adapters.job_definitions import submit_workflow  # noqa: PLC0415 - takes a second to import

    settings, customer = client.settings, client.customer
    client.wallet.open()
    _check_funds(client, request.escrow)
    try:
        stored = submit_workflow(
            settings.job_definitions_url,
            workflow.to_graphql(),
            ca=settings.ca_file,
            customer=customer.address,
        )
        return customer.submit_job(replace(request, batch_location_hash=stored))
    except KeyboardInterrupt:
        tell("interrupted; the job may have been asked for: gridstead job list")
        sys.exit(INTERRUPTED)


def _name(name: str | None, file: Path) -> str:
    if name is not None:
        return name
    stem = "" if str(file) == "-" else file.stem
    return stem.encode(errors="replace")[:NAME_BYTES].decode(errors="ignore")


def _check_funds(client: GridClient, escrow: int) -> None:
    """Refuse before anything is stored or sent."""
    least, balance = client.customer.minimum_escrow(), client.customer.balance()
    if escrow < least:
        raise InvalidInput(
            f"--credits {credits_text(escrow)} is less than a job must lock",
            detail=f"at least {credits_text(least)}",
            hint="Lock more; what is not used comes back.",
        )
    if balance < escrow:
        raise InvalidInput(
            f"wallet {client.customer.address} has {credits_text(balance)} credits",
            detail=f"--credits asks to lock {credits_text(escrow)}",
            hint="Lock less, or get credits.",
        )
    if client.customer.coins() == 0:
        raise InvalidInput(
            f"wallet {client.customer.address} has no coins to pay for gas",
            hint="Get some of the chain's own coin.",
        )


def _use(text: str) -> Label:
    match = _USE.fullmatch(text)
    if match is None:
        raise InvalidInput(f"invalid --uses {text[:80]!r}", hint="Write key=value.")
    return Label(key=match[1], value=match[2])


def _affinity(text: str) -> Affinity:
    match = _AFFINITY.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"invalid --affinity {text[:80]!r}",
            hint="Write key>=value, with <, <=, ==, >=, >, !=, or key:in:text.",
        )
    operator = {"=": "==", ":in:": "in"}.get(match[2], match[2])
    return Affinity(key=match[1], operator=operator, value=match[3])
