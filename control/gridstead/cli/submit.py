# SPDX-License-Identifier: Apache-2.0
"""`gridstead submit`: submits a workflow as a job."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridstead.cli.client import GridClient, job_to_json, open_client, shell_exit_code
from gridstead.cli.conditions import check_reserved_keys, parse_affinity, parse_label
from gridstead.cli.misplaced_keys import accept_or_ask
from gridstead.cli.options import Config, Json, Strict
from gridstead.cli.output import (
    credits_text,
    emit_result,
    parse_credits,
    print_note,
    problems_json,
)
from gridstead.cli.watch import INTERRUPTED
from gridstead.cli.watch import watch as watch_job
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import InvalidInput

if TYPE_CHECKING:
    from gridstead.adapters.chain.customer import JobRequest
    from gridstead.workflow.schema import Workflow

MAX_NAME_BYTES = 32


def submit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Workflow file (YAML), or - for standard input.")
    ],
    credits_: Annotated[
        str,
        typer.Option(
            "--credits",
            help="Credits to hold in escrow: the most that the job can cost. The rest is refunded.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Name of the job, at most 32 bytes. Default: the file's name without extension.",
        ),
    ] = None,
    uses: Annotated[
        list[str] | None,
        typer.Option("--uses", help="Label that the provider must have, as key=value. Repeatable."),
    ] = None,
    affinity: Annotated[
        list[str] | None,
        typer.Option(
            "--affinity",
            help=(
                "Condition on a label of the provider: key>=value, or key:in:text if the label"
                " must contain the text. The keys price.per-min, queue.wait.s, deadline.unix,"
                " reputation.success, benchmark.age.h and policy are not about labels. Repeatable."
            ),
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            "-w",
            help="Show states, output and cost until the job ends. Ctrl-C does not stop the job.",
        ),
    ] = False,
    use_exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code", "-e", help="Exit with the exit code of the job. Requires --watch."
        ),
    ] = False,
    strict: Strict = False,
    accept_misplaced: Annotated[
        bool,
        typer.Option(
            "--accept-misplaced",
            help=(
                "Submit the workflow even if the job runs differently because keys are ignored."
                " Without this option the command asks, or refuses if it has no terminal."
            ),
        ),
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Submit a workflow: store its script, request a job, and hold credits in escrow.

    The command first checks the workflow, the options, your wallet and your credits. If a check
    fails, it stores and sends nothing.

    A key can be in a wrong place or be misspelled, such as `container` next to `run`. Such a
    key is ignored. If the job therefore runs differently, the command asks before it submits the
    job. With --json, the key `warnings` lists the warnings about the workflow. If the job is
    refused because of such keys, the code of the error is `misplaced-keys`, and `problems` lists
    the keys.
    """
    if use_exit_code and not watch:
        raise InvalidInput("--exit-code needs --watch", hint="Add --watch to wait for the job.")
    # The import is slow, and --help does not need it.
    from gridstead.cli.workflow_file import read_workflow  # noqa: PLC0415

    checked = read_workflow(file, strict=strict)
    workflow = checked.workflow
    escrow = parse_credits(credits_)
    job_name = _job_name(name, file)
    request = _to_job_request(workflow, escrow, job_name, uses or (), affinity or ())
    accept_or_ask(checked, accept=accept_misplaced, is_from_stdin=str(file) == "-", as_json=as_json)
    client = open_client(config)
    check_reserved_keys(client, request.affinity)
    job_number = _store_and_request(client, workflow, request)
    warnings = {"warnings": problems_json(checked.warnings)}
    if watch:
        ended_job = watch_job(client, job_number, as_json=as_json, extra_fields=warnings)
        if use_exit_code:
            sys.exit(_process_exit_code(ended_job))
        return
    sentence = (
        f"submitted job {job_number} with {credits_text(request.escrow)} credits in escrow\n"
        f"to watch it: gridstead job watch {job_number}"
    )
    emit_result(job_to_json(client.job(job_number)) | warnings, sentence, as_json=as_json)


def _process_exit_code(job: Job) -> int:
    """Return the exit code of an ended job. Returns 1 if the job failed with the exit code 0."""
    code = shell_exit_code(job)
    if code == 0 and job.state is not JobState.FINISHED:
        return 1
    return code


def _to_job_request(
    workflow: Workflow, escrow: int, name: str, uses: Iterable[str], affinity: Iterable[str]
) -> JobRequest:
    """Return the request for a job, with an empty script hash.

    The caller sets the hash after it has stored the script.
    """
    # The import takes a second.
    from gridstead.adapters.chain.customer import JobRequest  # noqa: PLC0415

    resources = Resources(
        gpus=workflow.resources.gpus,
        tasks=workflow.resources.tasks,
        cpus_per_task=workflow.resources.cpus_per_task,
        memory_per_cpu_mb=workflow.resources.mem_per_cpu,
    )
    return JobRequest(
        resources=resources,
        batch_location_hash="",
        escrow=escrow,
        name=name,
        uses=tuple(map(parse_label, uses)),
        affinity=tuple(map(parse_affinity, affinity)),
    )


def _store_and_request(client: GridClient, workflow: Workflow, request: JobRequest) -> int:
    """Store the workflow's script, request the job, and return its number."""
    # The import takes a second.
    from gridstead.adapters.definitions.job_definitions import submit_workflow  # noqa: PLC0415

    settings = client.settings
    customer = client.customer
    client.wallet.open()
    _check_funds(client, request.escrow)
    try:
        batch_location_hash = submit_workflow(
            settings.job_definitions_url,
            workflow.to_graphql(),
            ca=settings.ca_file,
            customer=customer.address,
        )
        return customer.submit_job(replace(request, batch_location_hash=batch_location_hash))
    except KeyboardInterrupt:
        print_note("interrupted; the job may have been submitted, check with: gridstead job list")
        sys.exit(INTERRUPTED)


def _job_name(name: str | None, file: Path) -> str:
    """Return the name of the job.

    The default is the file's name without extension, cut after ``MAX_NAME_BYTES``. It is empty for
    standard input.
    """
    if name is not None:
        return name
    stem = "" if str(file) == "-" else file.stem
    name_bytes = stem.encode(errors="replace")[:MAX_NAME_BYTES]
    return name_bytes.decode(errors="ignore")  # drops a character that was cut


def _check_funds(client: GridClient, escrow: int) -> None:
    """Check that the wallet can pay the escrow and the gas.

    Raises:
        InvalidInput: If the escrow is too low, or the wallet cannot pay for it or for gas.
    """
    minimum = client.customer.minimum_escrow()
    balance = client.customer.balance()
    if escrow < minimum:
        raise InvalidInput(
            f"--credits {credits_text(escrow)} is less than the minimum escrow of a job",
            detail=f"the minimum is {credits_text(minimum)}",
            hint="Give more credits. Unused credits are refunded.",
        )
    if balance < escrow:
        raise InvalidInput(
            f"wallet {client.customer.address} has only {credits_text(balance)} credits",
            detail=f"--credits is {credits_text(escrow)}",
            hint="Give fewer credits, or transfer credits to the wallet.",
        )
    if client.customer.coins() == 0:
        raise InvalidInput(
            f"wallet {client.customer.address} has no coins to pay for gas",
            hint="Send coins of the chain to the wallet.",
        )
