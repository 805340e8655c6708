#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collect what people outside this repository rely on, one line per name.

A line is ``<kind> <name>``. Kinds: options, JSON keys, exit and error codes, log events and fields,
metrics, gRPC, GraphQL, workflow fields, settings, role variables, tags, playbooks, files on hosts,
environment variables, tables, stored names, the contracts' ABI.

Usage: collect.py > released.txt      records a release; do this only when a version is cut.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import typer.main
import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
CONTROL = CHECKOUT / "control" / "gridstead"
CVMFS = CHECKOUT / "cvmfs" / "gridstead_cvmfs"
ABSOLUTE_PATH = re.compile(r"/(?:etc|usr|var|opt|run|srv|home|root|cvmfs)/[\w./@-]*[\w@]")
LOG_METHODS = {"debug", "info", "warning", "error"}


def interface() -> set[str]:
    """Return every line."""
    lines: set[str] = set()
    for collect in COLLECTORS:
        lines.update(collect())
    return lines


def options() -> Iterator[str]:
    """Yield the command line: every command with its options and arguments."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    yield from (f"program {name}" for name in project["scripts"])
    application = importlib.import_module("gridstead.cli.main").app
    yield from _command(typer.main.get_command(application), "gridstead")


def _command(command: Any, path: str) -> Iterator[str]:
    yield f"command {path}"
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from _command(subcommand, f"{path} {name}")
    for parameter in command.params:
        names = [*parameter.opts, *parameter.secondary_opts]
        if parameter.param_type_name == "argument":
            names = [(parameter.metavar or parameter.name).upper()]
        yield from (f"option {path} {name}" for name in names)


def json_keys() -> Iterator[str]:
    """Yield the keys that ``--json`` prints: those of all mappings that the command line builds."""
    files = [*(CONTROL / "cli").rglob("*.py"), *CONTROL.rglob("steps.py"), CVMFS / "cli.py"]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            yield from (
                f"json {key}" for key in _keys(node) if re.fullmatch(r"[a-z][a-z0-9_]*", key)
            )


def _keys(node: ast.AST) -> Iterator[str]:
    keys: list[ast.expr | None] = []
    if isinstance(node, ast.Dict):
        keys = list(node.keys)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        keys = [node.slice]
    for key in keys:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def errors() -> Iterator[str]:
    """Yield the error codes with the exit code of each.

    Some classes are defined next to what raises them, so every module is imported first.
    """
    for file, _ in _sources():
        if "callbacks" not in file.parts:  # Ansible imports these in a process of its own
            package = CVMFS if file.is_relative_to(CVMFS) else CONTROL
            names = file.relative_to(package.parent).with_suffix("").parts
            importlib.import_module(".".join(names).removesuffix(".__init__"))
    from gridstead.errors import GridsteadError  # noqa: PLC0415 - as the other collectors, which import by name

    pending = [GridsteadError]
    while pending:
        kind = pending.pop()
        yield f"error {kind.code} exit {kind.exit_code}"
        pending += kind.__subclasses__()


def _sources() -> Iterator[tuple[Path, ast.Module]]:
    for file in (*CONTROL.rglob("*.py"), *CVMFS.rglob("*.py")):
        if not file.name.endswith(("_pb2.py", "_pb2_grpc.py")):
            yield file, ast.parse(file.read_text())


def log_events() -> Iterator[str]:
    """Yield the log events, each with each of its fields."""
    for _, tree in _sources():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            is_log = isinstance(node.func.value, ast.Name) and node.func.value.id == "log"
            if not is_log or node.func.attr not in LOG_METHODS:
                continue
            event = node.args[0]
            assert isinstance(event, ast.Constant), "an event's name is written where it is logged"
            yield f"log {event.value}"
            yield from (f"log {event.value} {keyword.arg}" for keyword in node.keywords)


def metrics() -> Iterator[str]:
    """Yield the names of metrics; a part that is computed is shown as ``{}``."""
    for _, tree in _sources():
        for node in ast.walk(tree):
            name = _text(node)
            if re.fullmatch(r"gridstead_[a-z0-9_{}]*[a-z0-9}]", name):
                yield f"metric {name}"


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "{}" for part in node.values)
    return ""


def grpc() -> Iterator[str]:
    """Yield the services, methods, messages and fields of the wire formats."""
    for file in sorted((CONTROL / "proto").glob("*_pb2.py")):
        descriptor = importlib.import_module(f"gridstead.proto.{file.stem}").DESCRIPTOR
        for service in descriptor.services_by_name.values():
            for method in service.methods:
                request, answer = method.input_type.full_name, method.output_type.full_name
                yield f"grpc {method.full_name}({request}) {answer}"
        for message in descriptor.message_types_by_name.values():
            yield f"grpc {message.full_name}"
            yield from (f"grpc {f.full_name} = {f.number} type {f.type}" for f in message.fields)


def graphql() -> Iterator[str]:
    """Yield each field and value of the GraphQL schema."""
    (schema_file,) = CONTROL.rglob("job_definitions.graphql")
    from graphql import build_ast_schema, parse  # noqa: PLC0415 - slow to import

    schema = build_ast_schema(parse(schema_file.read_text()))
    for kind in schema.type_map.values():
        if kind.name.startswith("__"):
            continue
        yield f"graphql {kind.name}"
        for name, field in getattr(kind, "fields", {}).items():
            yield f"graphql {kind.name}.{name}: {field.type}"
            arguments = getattr(field, "args", {})
            yield from (f"graphql {kind.name}.{name}({a}: {v.type})" for a, v in arguments.items())
        yield from (f"graphql {kind.name}.{name}" for name in getattr(kind, "values", {}))


def workflow_fields() -> Iterator[str]:
    """Yield the fields of the workflow language."""
    schema = importlib.import_module("gridstead.workflow.json_schema").json_schema()
    for model, definition in schema["$defs"].items():
        yield from (f"workflow {model}.{field}" for field in definition["properties"])


def settings() -> Iterator[str]:
    """Yield the keys of all settings files."""
    models = importlib.import_module("gridstead.cli.check_config").settings_models()
    for service, model in models.items():
        yield from _settings(model, f"setting {service}")


def _settings(model: Any, prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield f"{prefix}.{name}"
        for inner in _models(field.annotation):
            yield from _settings(inner, f"{prefix}.{name}")


def _models(annotation: Any) -> Iterator[Any]:
    if hasattr(annotation, "model_fields"):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def role_variables() -> Iterator[str]:
    """Yield the public variables of the roles, with the entry point that takes them."""
    for file in CHECKOUT.glob("roles/*/meta/argument_specs.yml"):
        role = file.parents[1].name
        for entry_point, specification in yaml.safe_load(file.read_text())[
            "argument_specs"
        ].items():
            yield f"role {role} {entry_point}"
            yield from _variables(specification.get("options") or {}, f"variable {role}")


def _variables(options: dict[str, Any], prefix: str) -> Iterator[str]:
    for name, specification in options.items():
        yield f"{prefix} {name}"
        yield from _variables(specification.get("options") or {}, f"{prefix} {name}")


def _yaml_files() -> Iterator[Path]:
    for folder in ("roles/*/tasks", "roles/*/handlers", "playbooks"):
        yield from CHECKOUT.glob(f"{folder}/**/*.yml")
    yield CHECKOUT / "site.yml"


def inventory_variables() -> Iterator[str]:
    """Yield the variables that the inventories share."""
    for file in (CHECKOUT / "inventory" / "group_vars").rglob("*.yml"):
        yield from (f"inventory {name}" for name in yaml.safe_load(file.read_text()))


def tags() -> Iterator[str]:
    """Yield the tags that ``--tags`` accepts."""
    for file in _yaml_files():
        yield from (f"tag {tag}" for tag in _tags(yaml.safe_load(file.read_text())))


def _tags(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _tags(item)
    elif isinstance(value, dict):
        own = value.get("tags", [])
        yield from [own] if isinstance(own, str) else own
        for item in value.values():
            yield from _tags(item)


def playbooks() -> Iterator[str]:
    """Yield the playbooks by their paths."""
    yield "playbook site.yml"
    yield from (
        f"playbook playbooks/{file.name}" for file in (CHECKOUT / "playbooks").glob("*.yml")
    )


def files_on_hosts() -> Iterator[str]:
    """Yield files and folders on hosts, units among them."""
    for role in CHECKOUT.glob("roles/*"):
        for kind in ("templates", "files"):
            for file in (role / kind).rglob("*"):
                path = f"/{file.relative_to(role / kind)}".removesuffix(".j2")
                if file.is_file() and ABSOLUTE_PATH.fullmatch(path):
                    yield f"file {path}"
        for kind in ("tasks", "handlers", "vars", "defaults"):
            for file in (role / kind).rglob("*.yml"):
                code = re.sub(r"(^|\s)#.*", "", file.read_text())
                yield from (f"file {path}" for path in ABSOLUTE_PATH.findall(code))


def environment() -> Iterator[str]:
    """Yield the environment variables that programs of ours read or set."""
    folders = ("control", "cvmfs/gridstead_cvmfs", "roles", "plugins", "playbooks")
    files = [
        file for folder in folders for file in (CHECKOUT / folder).rglob("*") if file.is_file()
    ]
    for file in files:
        if file.suffix in {".py", ".j2", ".sh", ".lua", ".c", ".yml"}:
            names = re.findall(r"\bGRIDSTEAD_[A-Z0-9_]+\b", file.read_text())
            yield from (f"environment {name}" for name in names)


def tables() -> Iterator[str]:
    """Yield the columns of all tables of the services' store."""
    from sqlalchemy import create_engine, inspect  # noqa: PLC0415 - slow to import

    database = importlib.import_module("gridstead.adapters.store.migrations")
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        version = database.version_of(connection)
        for step in range(version, len(database.MIGRATIONS)):
            database.migrate(connection, step)
        inspector = inspect(connection)
        for table in inspector.get_table_names():
            yield from (
                f"table {table}.{column['name']}" for column in inspector.get_columns(table)
            )


def stored_names() -> Iterator[str]:
    """Yield the names of calls and journal entries as they are stored."""
    codec = importlib.import_module("gridstead.adapters.store.codec")
    yield from (f"stored call {name}" for name in codec._ADAPTERS)
    journal = importlib.import_module("gridstead.domain.supervisor.journal")
    yield from (f"stored entry {kind.value}" for kind in journal.EntryKind)


def abi() -> Iterator[str]:
    """Yield the contracts' functions, events and errors as signatures."""
    for file in (CONTROL / "abi").glob("*.json"):
        for item in json.loads(file.read_text())["abi"]:
            inputs = ",".join(_type(value) for value in item.get("inputs", ()))
            outputs = ",".join(_type(value) for value in item.get("outputs", ()))
            yield f"abi {file.stem} {item['type']} {item.get('name', '')}({inputs})({outputs})"


def _type(value: dict[str, Any]) -> str:
    inner = ",".join(_type(component) for component in value.get("components", ()))
    return value["type"].replace("tuple", f"({inner})")


COLLECTORS = (
    options,
    json_keys,
    errors,
    log_events,
    metrics,
    grpc,
    graphql,
    workflow_fields,
    settings,
    role_variables,
    inventory_variables,
    tags,
    playbooks,
    files_on_hosts,
    environment,
    tables,
    stored_names,
    abi,
)


if __name__ == "__main__":
    sys.stdout.write("\n".join(sorted(interface())) + "\n")
