# SPDX-License-Identifier: Apache-2.0
"""`gridstead workflow`: write and check a workflow; contacts nothing but hosts of modules that it
is told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.client import Json
from gridstead.cli.output import emit_done, emit_json, tell
from gridstead.errors import InvalidInput
from gridstead.wiring.modules import open_modules
from gridstead.workflow.json_schema import json_schema
from gridstead.workflow.parse import check_workflow
from gridstead.workflow.render import render as render_script
from gridstead.workflow.schema import ModuleSource, Workflow

app = typer.Typer(help="Workflows: what a job does, in YAML.", no_args_is_help=True)

MAX_BYTES = 256 * 1024

File = Annotated[Path, typer.Argument(metavar="FILE", help="Workflow, YAML; - for standard input.")]

Strict = Annotated[bool, typer.Option("--strict", help="A field in a wrong place is an error.")]

Hosts = Annotated[
    list[str],
    typer.Option(
        "--module-host",
        metavar="HOST",
        help="Fetch modules from this host; as often as there are hosts.",
    ),
]
Authority = Annotated[
    Path | None,
    typer.Option("--module-ca-file", metavar="FILE", help="Who vouches for these hosts."),
]


class Template(StrEnum):
    """Workflows to start from."""

    HELLO_WORLD = "hello-world"
    FOR_LOOP = "for-loop"
    GPU = "gpu"
    MODULE = "module"
    MPI = "mpi"
    S3 = "s3"


def read_workflow(
    path: Path, *, strict: bool = False, modules: Callable[[ModuleSource], str] | None = None
) -> Workflow:
    """Return the workflow of a file; what stands in a wrong place is told on stderr, or an error if
    strict.

    Its modules are in it if there is something to fetch them with.

    Raises:
        InvalidInput: The file cannot be read, is no text, or breaks a rule.
    """
    try:
        with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        checked = check_workflow(data.decode(), strict=strict, modules=modules)
    except (OSError, ValueError) as error:
        hint = "`gridstead workflow init` writes one to start from."
        raise InvalidInput(f"cannot read {path}", detail=str(error), hint=hint) from error
    for warning in checked.warnings:
        tell(f"warning: {warning}. {warning.hint or ''}".rstrip())
    return checked.workflow


@app.command()
def validate(
    file: File,
    strict: Strict = False,
    module_host: Hosts = [],  # noqa: B006 # never changed
    module_ca_file: Authority = None,
    as_json: Json = False,
) -> None:
    """Check a workflow; every broken rule is told at once. With hosts to fetch them from, its
    modules too.
    """
    modules = open_modules(module_host, module_ca_file) if module_host else None
    workflow = read_workflow(file, strict=strict, modules=modules)
    emit_done({"valid": True, "workflow": workflow.to_graphql()}, f"{file}: valid", as_json=as_json)


@app.command()
def render(
    file: File,
    strict: Strict = False,
    module_host: Hosts = [],  # noqa: B006 # never changed
    module_ca_file: Authority = None,
    as_json: Json = False,
) -> None:
    """Print the batch script that a provider will run."""
    script = render_script(
        read_workflow(file, strict=strict, modules=open_modules(module_host, module_ca_file))
    )
    if as_json:
        emit_json({"script": script})
        return
    sys.stdout.write(script)


@app.command()
def schema() -> None:
    """Print the language as a JSON Schema, for editors."""
    emit_json(json_schema())


@app.command()
def init(
    template: Annotated[
        Template, typer.Option("--template", "-t", help="What to start from.")
    ] = Template.HELLO_WORLD,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; must not exist.")
    ] = Path("workflow.yaml"),
    as_json: Json = False,
) -> None:
    """Write a first workflow to start from."""
    text = (
        resources.files("gridstead.workflow")
        .joinpath("templates", f"{template.value}.yaml")
        .read_text()
    )
    try:
        with output.open("x") as file:
            file.write(text)
    except OSError as error:
        raise InvalidInput(f"cannot write {output}", detail=str(error)) from error
    emit_done(
        {"file": str(output)},
        f"wrote {output}; try: gridstead workflow validate {output}",
        as_json=as_json,
    )
