# SPDX-License-Identifier: Apache-2.0
"""`gridstead workflow`: creates, checks and renders workflows.

The commands run locally. They contact no hosts except the hosts of the workflow's modules. These
must be well-known public hosts, or be given as options.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.client_modules import PUBLIC_HOSTS, ClientModules
from gridstead.cli.options import Json, Strict
from gridstead.cli.output import (
    emit_json,
    emit_result,
    print_line,
    print_note,
    print_warnings,
    problems_json,
)
from gridstead.cli.workflow_file import read_workflow
from gridstead.errors import InvalidInput, InvalidWorkflow, WorkflowProblem
from gridstead.workflow.json_schema import FILE_NAME, json_schema
from gridstead.workflow.render import render as render_script
from gridstead.workflow.schema import Workflow

app = typer.Typer(no_args_is_help=True)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="Workflow file (YAML), or - for standard input.")
]

ModuleHosts = Annotated[
    list[str],
    typer.Option(
        "--module-host",
        metavar="HOST",
        help=f"Host from which modules may be fetched, in addition to {', '.join(PUBLIC_HOSTS)}. "
        "Repeatable.",
    ),
]
ModuleCaFile = Annotated[
    Path | None,
    typer.Option(
        "--module-ca-file",
        metavar="FILE",
        help="PEM file of the CA that signed the certificates of the hosts in --module-host.",
    ),
]


class Template(StrEnum):
    """The templates of ``gridstead workflow init``."""

    HELLO_WORLD = "hello-world"
    FOR_LOOP = "for-loop"
    GPU = "gpu"
    MODULE = "module"
    MPI = "mpi"
    S3 = "s3"


@app.command()
def validate(
    file: File,
    strict: Strict = False,
    module_host: ModuleHosts = [],  # noqa: B006 # The list is never changed.
    module_ca_file: ModuleCaFile = None,
    as_json: Json = False,
) -> None:
    """Check a workflow file and print all errors.

    The modules of the workflow are also fetched and checked. If the host of a module is not
    allowed, a note says that the module was not checked. The same applies if a host that is not
    in --module-host does not answer.

    With --json, the command prints an object with the same keys for a valid and an invalid
    workflow: `valid`; `workflow`, which is null if the workflow is invalid; `problems`, the errors;
    `warnings`; and `unchecked_modules`. Errors and warnings have the keys `path`, `line`, `reason`,
    `hint` and `changes_run`. `changes_run` is true if the job would run differently
    because a key of the file is ignored. It is false for keys of modules. If the workflow is
    invalid, an error is also printed on stderr, as with every command.
    """
    modules = ClientModules(module_host, module_ca_file, must_fetch=False)
    try:
        checked = read_workflow(file, strict=strict, fetch_module=modules.text)
    except InvalidWorkflow as error:
        if as_json:
            emit_json(_validation(modules, warnings=error.warnings, problems=error.problems))
        raise
    finally:
        for source, reason in modules.unchecked.items():
            print_note(f"note: module {source} was not checked: {reason}")
    if as_json:
        emit_json(_validation(modules, warnings=checked.warnings, workflow=checked.workflow))
        return
    print_warnings(checked.warnings)
    print_line(f"{file}: valid")


def _validation(
    modules: ClientModules,
    *,
    warnings: Iterable[WorkflowProblem],
    problems: Iterable[WorkflowProblem] = (),
    workflow: Workflow | None = None,
) -> dict[str, object]:
    """Return what ``validate --json`` prints. The workflow is None if it is invalid."""
    return {
        "valid": workflow is not None,
        "workflow": workflow.to_graphql() if workflow else None,
        "problems": problems_json(problems),
        "warnings": problems_json(warnings),
        "unchecked_modules": list(modules.unchecked),
    }


@app.command()
def render(
    file: File,
    strict: Strict = False,
    module_host: ModuleHosts = [],  # noqa: B006 # The list is never changed.
    module_ca_file: ModuleCaFile = None,
    as_json: Json = False,
) -> None:
    """Print the batch script that a provider would run for a workflow."""
    modules = ClientModules(module_host, module_ca_file, must_fetch=True)
    checked = read_workflow(file, strict=strict, fetch_module=modules.text)
    script = render_script(checked.workflow)
    if as_json:
        emit_json({"script": script, "warnings": problems_json(checked.warnings)})
    else:
        print_warnings(checked.warnings)
        sys.stdout.write(script)


@app.command()
def schema() -> None:
    """Print the JSON Schema of workflow files. Editors use it to check and complete workflows."""
    emit_json(json_schema())


@app.command()
def init(
    template: Annotated[
        Template, typer.Option("--template", "-t", help="The template to copy.")
    ] = Template.HELLO_WORLD,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to create. It must not exist yet.")
    ] = Path("workflow.yaml"),
    as_json: Json = False,
) -> None:
    """Create a workflow file from a template.

    The JSON Schema for editors is written to workflow.schema.json in the same directory, unless
    this file exists.
    """
    templates = resources.files("gridstead.workflow").joinpath("templates")
    text = templates.joinpath(f"{template.value}.yaml").read_text()
    try:
        _create(output, text)
    except OSError as error:
        raise InvalidInput(f"cannot write {output}", detail=str(error)) from error
    _create_schema(output.with_name(FILE_NAME))
    sentence = f"created {output}; to check it: gridstead workflow validate {output}"
    emit_result({"file": str(output)}, sentence, as_json=as_json)


def _create_schema(path: Path) -> None:
    """Write the JSON Schema, unless the file exists. A failure is only a note."""
    if path.exists():
        return
    try:
        _create(path, json.dumps(json_schema(), indent=2) + "\n")
    except OSError as error:
        print_note(f"cannot write {path}, with which editors check the workflow: {error}")


def _create(path: Path, text: str) -> None:
    with path.open("x") as file:
        file.write(text)
