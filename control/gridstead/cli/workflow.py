# SPDX-License-Identifier: Apache-2.0
"""`gridstead workflow`: creates, checks and renders workflows.

The commands contact no other program, except the module hosts that are given as options.
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
from gridstead.cli.output import emit_done, emit_json, print_note
from gridstead.errors import InvalidInput
from gridstead.wiring.definitions.modules import open_modules
from gridstead.workflow.json_schema import json_schema
from gridstead.workflow.parse import check_workflow
from gridstead.workflow.render import render as render_script
from gridstead.workflow.schema import ModuleSource, Workflow

app = typer.Typer(
    help="Create, check and render workflows, the YAML files that describe jobs.",
    no_args_is_help=True,
)

MAX_BYTES = 256 * 1024

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="Workflow file (YAML), or - for standard input.")
]

Strict = Annotated[
    bool, typer.Option("--strict", help="Fail if a field is in a wrong place, instead of warning.")
]

Hosts = Annotated[
    list[str],
    typer.Option(
        "--module-host",
        metavar="HOST",
        help="Host from which modules may be fetched; repeatable.",
    ),
]
Authority = Annotated[
    Path | None,
    typer.Option("--module-ca-file", metavar="FILE", help="CA file for these hosts (PEM)."),
]


class Template(StrEnum):
    """The workflow templates."""

    HELLO_WORLD = "hello-world"
    FOR_LOOP = "for-loop"
    GPU = "gpu"
    MODULE = "module"
    MPI = "mpi"
    S3 = "s3"


def read_workflow(
    path: Path, *, strict: bool = False, modules: Callable[[ModuleSource], str] | None = None
) -> Workflow:
    """Return the workflow of a file.

    Args:
        path: The file; ``-`` for standard input.
        strict: Whether a field in a wrong place is an error, or a warning on stderr.
        modules: Fetches a module, whose steps are then in the workflow; None not to fetch modules.

    Raises:
        InvalidInput: If the file cannot be read, is not UTF-8, or breaks a rule.
    """
    try:
        with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        checked = check_workflow(data.decode(), strict=strict, modules=modules)
    except (OSError, ValueError) as error:
        hint = "Run `gridstead workflow init` to create a workflow."
        raise InvalidInput(f"cannot read {path}", detail=str(error), hint=hint) from error
    for warning in checked.warnings:
        print_note(f"warning: {warning}. {warning.hint or ''}".rstrip())
    return checked.workflow


@app.command()
def validate(
    file: File,
    strict: Strict = False,
    module_host: Hosts = [],  # noqa: B006 # never changed
    module_ca_file: Authority = None,
    as_json: Json = False,
) -> None:
    """Check a workflow and print all errors.

    With --module-host, its modules are fetched and checked too.
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
    """Print the batch script that a provider runs for a workflow."""
    modules = open_modules(module_host, module_ca_file)
    script = render_script(read_workflow(file, strict=strict, modules=modules))
    if as_json:
        emit_json({"script": script})
        return
    sys.stdout.write(script)


@app.command()
def schema() -> None:
    """Print the JSON Schema of workflows, for editors."""
    emit_json(json_schema())


@app.command()
def init(
    template: Annotated[
        Template, typer.Option("--template", "-t", help="The template to copy.")
    ] = Template.HELLO_WORLD,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to create; it must not exist.")
    ] = Path("workflow.yaml"),
    as_json: Json = False,
) -> None:
    """Create a workflow file from a template."""
    templates = resources.files("gridstead.workflow").joinpath("templates")
    text = templates.joinpath(f"{template.value}.yaml").read_text()
    try:
        with output.open("x") as file:
            file.write(text)
    except OSError as error:
        raise InvalidInput(f"cannot write {output}", detail=str(error)) from error
    sentence = f"created {output}; to check it: gridstead workflow validate {output}"
    emit_done({"file": str(output)}, sentence, as_json=as_json)
