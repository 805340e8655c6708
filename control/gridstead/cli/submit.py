# SPDX-License-Identifier: Apache-2.0
"""`gridstead submit`: from a workflow to a job."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.client import Client, Config, Json, exit_code, open_client, to_json
from gridstead.cli.output import console, credits_text, emit_json, parse_credits
from gridstead.cli.watch import watch as watch_job
from gridstead.cli.workflow import read_workflow
from gridstead.domain.billing import Resources
from gridstead.domain.job import Affinity, Label
from gridstead.errors import InvalidInput
from gridstead.workflow.schema import Workflow

_USE = re.compile(r"([^=<>!]+)=(.*)")
_AFFINITY = re.compile(r"([^=<>!:]+)(<=|>=|==|!=|<|>|=|:in:)(.*)")


def submit(
    file: Annotated[Path, typer.Argument(help="Workflow, YAML; - for standard input.")],
    credits_: Annotated[str, typer.Option("--credits", help="Credits to lock; what is not used comes back.")],
    name: Annotated[str | None, typer.Option("--name", help="At most 32 bytes; the file's name if not given.")] = None,
    uses: Annotated[
        list[str] | None, typer.Option("--uses", help="Label that the provider must have: key=value.")
    ] = None,
    affinity: Annotated[
        list[str] | None, typer.Option("--affinity", help="Condition on a label: key>=value, key:in:text.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Stay and show states, output and cost.")] = False,
    use_exit_code: Annotated[
        bool, typer.Option("--exit-code", "-e", help="With --watch: end with the job's exit code.")
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Submit a workflow: store its script, lock credits, ask for a job."""
    workflow = read_workflow(file)
    lock = parse_credits(credits_)
    labels, conditions = [_use(u) for u in uses or ()], [_affinity(a) for a in affinity or ()]
    client = open_client(config)
    number = _request(client, workflow, lock, name or file.stem[:32], labels, conditions)
    if not watch:
        job = client.job(number)
        if as_json:
            emit_json(to_json(job))
        else:
            console.print(f"job {number} asks for a provider; {credits_text(lock)} credits are locked")
            console.print(f"follow it: gridstead job logs {number}", style="dim")
        return
    end = watch_job(client, number, as_json=as_json)
    if end is not None and use_exit_code:
        sys.exit(exit_code(end) or (0 if end.state.name == "FINISHED" else 1))


def _request(
    client: Client, workflow: Workflow, lock: int, name: str, uses: list[Label], affinity: list[Affinity]
) -> int:
    from gridstead.adapters.chain.customer import JobRequest  # noqa: PLC0415 - takes a second to import
    from gridstead.adapters.job_definitions import submit_workflow  # noqa: PLC0415

    customer = client.customer
    _check_funds(client, lock)
    asked = workflow.resources
    stored = submit_workflow(client.settings.job_definitions_url, workflow.to_graphql(), ca=client.settings.ca_file)
    if customer.allowance() < lock:
        customer.allow(lock)
    request = JobRequest(
        resources=Resources(
            gpus=asked.gpus,
            tasks=asked.tasks,
            cpus_per_task=asked.cpus_per_task,
            memory_per_cpu_mb=asked.mem_per_cpu,
        ),
        batch_location_hash=stored,
        lock=lock,
        name=name,
        uses=tuple(uses),
        affinity=tuple(affinity),
    )
    return customer.request_job(request)


def _check_funds(client: Client, lock: int) -> None:
    """Refuse before anything is stored or sent."""
    least, balance = client.customer.minimum_lock(), client.customer.balance()
    if lock < least:
        raise InvalidInput(
            f"--credits {credits_text(lock)} is less than a job must lock", detail=f"at least {credits_text(least)}"
        )
    if balance < lock:
        raise InvalidInput(
            f"wallet {client.customer.address} has {credits_text(balance)} credits",
            detail=f"--credits asks to lock {credits_text(lock)}",
            hint="Lock less, or get credits.",
        )
    if client.customer.coins() == 0:
        raise InvalidInput(
            f"wallet {client.customer.address} has no coins to pay for gas", hint="Get some of the chain's own coin."
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
            f"invalid --affinity {text[:80]!r}", hint="Write key>=value, with <, <=, ==, >=, >, !=, or key:in:text."
        )
    operator = {"=": "==", ":in:": "in"}.get(match[2], match[2])
    return Affinity(key=match[1], operator=operator, value=match[3])
