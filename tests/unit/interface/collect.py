#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the public interface: every name that people outside this repository rely on.

Each line is ``<kind> <name>``. The kinds are: options, JSON keys, exit and error codes, log events
and fields, metrics, gRPC, GraphQL, workflow fields, settings, role variables, tags, playbooks,
files on hosts, environment variables, tables, stored names, and the contracts' ABI.

Usage: collect.py > released.txt
Run the program only for a release, because released.txt records the interface of the release.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import typer.main
from tests.yaml_files import read_yaml

CHECKOUT = Path(__file__).resolve().parents[3]
CONTROL = CHECKOUT / "control" / "gridstead"
CVMFS = CHECKOUT / "cvmfs" / "gridstead_cvmfs"
ABSOLUTE_PATH = re.compile(r"/(?:etc|usr|var|opt|run|srv|home|root|cvmfs)/[\w./@-]*[\w@]")
SOURCE_SUFFIXES = {".py", ".j2", ".sh", ".lua", ".c", ".yml"}
LOG_METHODS = {"debug", "info", "warning", "error"}


def interface() -> set[str]:
    """Return all lines of the interface."""
    lines: set[str] = set()
    for collect in COLLECTORS:
        lines.update(collect())
    return lines


def options() -> Iterator[str]:
    """Yield every program, and every command with the options and arguments of the command."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    for name in project["scripts"]:
        yield f"program {name}"
    application = importlib.import_module("gridstead.cli.main").app
    yield from _command(typer.main.get_command(application), "gridstead")


def _command(command: Any, path: str) -> Iterator[str]:
    yield f"command {path}"
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from _command(subcommand, f"{path} {name}")
    for parameter in command.params:
        names = [*parameter.opts, *parameter.secondary_opts]
        if parameter.param_type_name == "argument":
            shown_name = parameter.metavar or parameter.name
            names = [shown_name.upper()]
        for name in names:
            yield f"option {path} {name}"


def json_keys() -> Iterator[str]:
    """Yield the keys that ``--json`` prints.

    The function yields the string keys of all mappings in the modules of the command line.
    """
    files = [*(CONTROL / "cli").rglob("*.py"), CONTROL / "adapters/contracts/steps.py"]
    files += [CVMFS / "cli.py"]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            for key in _string_keys(node):
                if re.fullmatch(r"[a-z][a-z0-9_]*", key):
                    yield f"json {key}"


def _string_keys(node: ast.AST) -> Iterator[str]:
    """Yield the string keys of a dict display or of an assignment to ``mapping[key]``."""
    keys: list[ast.expr | None] = []
    if isinstance(node, ast.Dict):
        keys = list(node.keys)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        keys = [node.slice]
    for key in keys:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def errors() -> Iterator[str]:
    """Yield each error code with its exit code.

    Error classes are defined in many modules, so all modules are imported first.
    """
    _import_all_modules()
    pending_classes = [importlib.import_module("gridstead.errors").GridsteadError]
    while pending_classes:
        error_class = pending_classes.pop()
        yield f"error {error_class.code} exit {error_class.exit_code}"
        pending_classes += error_class.__subclasses__()


def _import_all_modules() -> None:
    for file, _tree in _sources():
        if {"callbacks", "reframe"}.intersection(file.parts):
            continue  # Ansible and ReFrame import these modules in their own processes.
        package = CVMFS if file.is_relative_to(CVMFS) else CONTROL
        names = file.relative_to(package.parent).with_suffix("").parts
        importlib.import_module(".".join(names).removesuffix(".__init__"))


@cache
def _sources() -> tuple[tuple[Path, ast.Module], ...]:
    """Return each Python file of the programs with its syntax tree."""
    generated = ("_pb2.py", "_pb2_grpc.py")
    files = (*CONTROL.rglob("*.py"), *CVMFS.rglob("*.py"))
    written_files = [file for file in files if not file.name.endswith(generated)]
    return tuple((file, ast.parse(file.read_text())) for file in written_files)


def log_events() -> Iterator[str]:
    """Yield the log events, and each field of each event."""
    for _, tree in _sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not _is_log_method(node.func):
                continue
            event = node.args[0]
            assert isinstance(event, ast.Constant), "the name of a log event must be a literal"
            yield f"log {event.value}"
            for keyword in node.keywords:
                yield f"log {event.value} {keyword.arg}"


def _is_log_method(function: ast.expr) -> bool:
    """Return whether an expression is ``log.info`` or another method of LOG_METHODS."""
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return False
    return function.value.id == "log" and function.attr in LOG_METHODS


def metrics() -> Iterator[str]:
    """Yield the names of metrics. A computed part of a name is shown as ``{}``."""
    for _, tree in _sources():
        for node in ast.walk(tree):
            name = _text(node)
            if re.fullmatch(r"gridstead_[a-z0-9_{}]*[a-z0-9}]", name):
                yield f"metric {name}"


def _text(node: ast.AST) -> str:
    """Return the text of a string or an f-string. Return an empty text for other nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "{}" for part in node.values)
    return ""


def grpc() -> Iterator[str]:
    """Yield the methods, messages and fields of all gRPC services."""
    for file in sorted((CONTROL / "proto").glob("*_pb2.py")):
        descriptor = importlib.import_module(f"gridstead.proto.{file.stem}").DESCRIPTOR
        for service in descriptor.services_by_name.values():
            for method in service.methods:
                request = method.input_type.full_name
                answer = method.output_type.full_name
                yield f"grpc {method.full_name}({request}) {answer}"
        for message in descriptor.message_types_by_name.values():
            yield f"grpc {message.full_name}"
            for field in message.fields:
                yield f"grpc {field.full_name} = {field.number} type {field.type}"


def graphql() -> Iterator[str]:
    """Yield the types, fields, arguments and values of the GraphQL schema."""
    (schema_file,) = CONTROL.rglob("job_definitions.graphql")
    from graphql import build_ast_schema, parse  # noqa: PLC0415 - slow to import

    schema = build_ast_schema(parse(schema_file.read_text()))
    for graphql_type in schema.type_map.values():
        if not graphql_type.name.startswith("__"):
            yield from _graphql_type(graphql_type)


def _graphql_type(graphql_type: Any) -> Iterator[str]:
    type_name = graphql_type.name
    yield f"graphql {type_name}"
    for name, field in getattr(graphql_type, "fields", {}).items():
        yield f"graphql {type_name}.{name}: {field.type}"
        for argument_name, argument in getattr(field, "args", {}).items():
            yield f"graphql {type_name}.{name}({argument_name}: {argument.type})"
    for name in getattr(graphql_type, "values", {}):
        yield f"graphql {type_name}.{name}"


def workflow_fields() -> Iterator[str]:
    """Yield the fields of the workflow language."""
    schema = importlib.import_module("gridstead.workflow.json_schema").json_schema()
    for model, definition in schema["$defs"].items():
        for field in definition["properties"]:
            yield f"workflow {model}.{field}"


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
    """Yield the settings models in a type annotation, such as ``tuple[Model, ...] | None``."""
    if hasattr(annotation, "model_fields"):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def role_variables() -> Iterator[str]:
    """Yield the entry points of the roles, and the public variables of each role."""
    for file in CHECKOUT.glob("roles/*/meta/argument_specs.yml"):
        role = file.parents[1].name
        entry_points = read_yaml(file)["argument_specs"]
        for entry_point, specification in entry_points.items():
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
    """Yield the variables of inventory/group_vars."""
    for file in (CHECKOUT / "inventory" / "group_vars").rglob("*.yml"):
        for name in read_yaml(file):
            yield f"inventory {name}"


def tags() -> Iterator[str]:
    """Yield the tags that ``--tags`` accepts."""
    for file in _yaml_files():
        for tag in _tags(read_yaml(file)):
            yield f"tag {tag}"


def _tags(value: Any) -> Iterator[str]:
    """Yield the tags in a list of plays or tasks, including those of nested tasks."""
    if isinstance(value, list):
        for item in value:
            yield from _tags(item)
    elif isinstance(value, dict):
        tags_of_task = value.get("tags", [])
        if isinstance(tags_of_task, str):
            yield tags_of_task
        else:
            yield from tags_of_task
        for item in value.values():
            yield from _tags(item)


def playbooks() -> Iterator[str]:
    """Yield the playbooks by their paths."""
    yield "playbook site.yml"
    for file in (CHECKOUT / "playbooks").glob("*.yml"):
        yield f"playbook playbooks/{file.name}"


def files_on_hosts() -> Iterator[str]:
    """Yield the paths of files and folders on hosts, including systemd units."""
    for role in CHECKOUT.glob("roles/*"):
        yield from _installed_files(role)
        yield from _paths_in_code(role)


def _installed_files(role: Path) -> Iterator[str]:
    """Yield the paths on hosts of a role's templates and files.

    Below the role's folder ``templates`` or ``files``, a file has the same path as on the host.
    """
    for folder in (role / "templates", role / "files"):
        for file in folder.rglob("*"):
            path = f"/{file.relative_to(folder)}".removesuffix(".j2")
            if file.is_file() and ABSOLUTE_PATH.fullmatch(path):
                yield f"file {path}"


def _paths_in_code(role: Path) -> Iterator[str]:
    """Yield the absolute paths in a role's tasks, handlers and variables."""
    for folder in ("tasks", "handlers", "vars", "defaults"):
        for file in (role / folder).rglob("*.yml"):
            code_without_comments = re.sub(r"(^|\s)#.*", "", file.read_text())
            for path in ABSOLUTE_PATH.findall(code_without_comments):
                yield f"file {path}"


def environment() -> Iterator[str]:
    """Yield the environment variables that the programs read or set."""
    for folder in ("control", "cvmfs/gridstead_cvmfs", "roles", "plugins", "playbooks"):
        for file in (CHECKOUT / folder).rglob("*"):
            if not file.is_file() or file.suffix not in SOURCE_SUFFIXES:
                continue
            for name in re.findall(r"\bGRIDSTEAD_[A-Z0-9_]+\b", file.read_text()):
                yield f"environment {name}"


def tables() -> Iterator[str]:
    """Yield the columns of all tables of the store."""
    from sqlalchemy import create_engine, inspect  # noqa: PLC0415 - slow to import

    migrations = importlib.import_module("gridstead.adapters.store.migrations")
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        version = migrations.version_of(connection)
        for step in range(version, len(migrations.MIGRATIONS)):
            migrations.migrate(connection, step)
        inspector = inspect(connection)
        for table in inspector.get_table_names():
            for column in inspector.get_columns(table):
                yield f"table {table}.{column['name']}"


def stored_names() -> Iterator[str]:
    """Yield the names of calls and journal entries in the store."""
    codec = importlib.import_module("gridstead.adapters.store.codec")
    for name in codec._TYPE_ADAPTERS:
        yield f"stored call {name}"
    journal = importlib.import_module("gridstead.domain.supervisor.journal")
    for kind in journal.EntryKind:
        yield f"stored entry {kind.value}"


def abi() -> Iterator[str]:
    """Yield the signatures of the functions, events and errors of the contracts.

    Constructors are omitted, because only the deployment of the same release calls them.
    """
    for file in (CONTROL / "abi").glob("*.json"):
        for item in json.loads(file.read_text())["abi"]:
            if item["type"] == "constructor":
                continue
            inputs = _types(item.get("inputs", ()))
            outputs = _types(item.get("outputs", ()))
            yield f"abi {file.stem} {item['type']} {item.get('name', '')}({inputs})({outputs})"


def _types(values: Iterable[dict[str, Any]]) -> str:
    """Return the Solidity types of some values, such as ``uint256,(address,bytes)``."""
    types = []
    for value in values:
        components = _types(value.get("components", ()))
        types.append(value["type"].replace("tuple", f"({components})"))
    return ",".join(types)


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
