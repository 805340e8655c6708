# SPDX-License-Identifier: Apache-2.0
"""The reference page of the workflow language, from the models."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from types import NoneType
from typing import Annotated, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gridstead.workflow.field_paths import name_of
from gridstead.workflow.schema import Module, Workflow, model_in

_INTRODUCTION = """\
# Workflow

This page is made from the modules in `control/gridstead/workflow/schema/` by
`gridstead.workflow.reference`; edit those instead.

A workflow is one YAML document of at most 256 KiB, in UTF-8. It holds the fields of a *Job* at its top level, or
under the one key `job`. A key that is not listed here is an error, and so are a key that stands twice, an anchor or
alias, and a tag. A key that is listed for another place does nothing and is a warning, with `--strict` an error. A
field without a value is a field that is not there. Numbers and text are told apart as YAML 1.2 does: put `"8"` in
quotes where text is wanted. Every error of a file is told at once, with its line.

Examples are in `examples/`. Each step is started by `srun` on the provider's nodes. One that Slurm did not make,
because slurmctld was away or had just begun, is asked for again for up to three minutes, and the job's output says
so; one that it made never starts twice. With `enableLogging`, a writer runs beside the job on its first node; it
takes about 45 MB of the job's memory.
"""

_VARIABLES = """\
## What a step finds

A step starts in a directory of the job's own on the provider's shared storage, which goes when the job ends. Beside
the variables of the workflow and of Slurm it has:

| variable | meaning |
|---|---|
| `STORAGE_PATH` | The job's directory. |
| `DEEPSQUARE_INPUT`, `DEEPSQUARE_OUTPUT` | Directories in it. |
| `DEEPSQUARE_ENV` | A file. A line `NAME=value` that a step adds to it is a variable of the steps after it. |
| `DEEPSQUARE_TMP`, `DEEPSQUARE_SHARED_TMP` | The customer's own directory on the shared storage; it outlives the job. |
| `DEEPSQUARE_SHARED_WORLD_TMP` | A directory on the shared storage for everybody. |
| `DEEPSQUARE_DISK_TMP`, `DEEPSQUARE_DISK_WORLD_TMP` | The same on a node's own disk, where the provider has them. |
| `NTASKS`, `CPUS_PER_TASK`, `MEM_PER_CPU`, `GPUS` | The job's resources, as in the workflow. |
| `item`, `index` | In a loop: this round's item or number. |
| `DEEPSQUARE_ERROR_CODE` | The code of the last step that has a `catch` or a `finally`. |
| `CPUS`, `MEM` | CPU threads and memory (MB) of the whole job. |
"""

_NODES = """\
## What a provider's nodes need

| for | on the nodes |
|---|---|
| every job | Slurm, bash 5, util-linux, coreutils |
| data on the web | `curl`; `python3`, `tar`, `gzip`, `bzip2`, `xz`, `unrar` and `7z` for what is packed in these ways |
| data in an S3 store | `rclone` 1.60 or later |
| containers | `apptainer` 1.1 or later, or `enroot` 3.4 or later |
| `deepsquareHosted` | `apptainer`, and `/opt/software`, which role cvmfs can make a link into a mounted repository |
| `mapUid`, `mapGid` | user namespaces for everybody |
| `network` | user namespaces for everybody, in one another; iproute2; `slirp4netns` or `pasta`; `/dev/net/tun` |
| `wireguard`, `vnet` | beside that `wg-quick`, and WireGuard in the kernel or `wireguard-go` |
| `virtualNetworks` | `pasta` on the job's first node; UDP from the other nodes to it |
| `bore` | a network of its own; `gridstead-bore` is there with the control plane's programs |

A step that needs what is not there fails with 127, as a command that is not there does. Role container_runtime
installs all but Enroot, which it takes by address.

On the lab's Slurm the project's tests run every construct and look at its effects. Stood in for there: Enroot's own
command, by one that runs the command without a container; a GPU, by a declared one without a device; the server of
`bore`, by one that speaks as it does; the X server, by its folder; WireGuard in the kernel, by `wireguard-go`; the
outside, by servers on the machine that carries the lab.
"""

_TYPES = {bool: "true or false", int: "whole number", str: "text"}


def markdown() -> str:
    """Return the text of docs/reference/workflow.md."""
    seen: set[type[BaseModel]] = set()
    sections = [_section(model) for root in (Workflow, Module) for model in _models(root, seen)]
    return "\n".join([_INTRODUCTION, *sections, _VARIABLES, _NODES])


def _models(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """A model, then those of its fields, each once."""
    if model in seen:
        return
    seen.add(model)
    yield model
    for field in model.model_fields.values():
        inner = model_in(field.annotation)
        if inner:
            yield from _models(inner, seen)


def _section(model: type[BaseModel]) -> str:
    rows = [_row(field, name) for name, field in model.model_fields.items()]
    about = cleandoc(model.__doc__ or "")
    head = (
        f"## {name_of(model)}\n\n{about}\n\n| field | type | default | meaning |\n|---|---|---|---|"
    )
    return "\n".join([head, *rows, ""])


def _row(field: FieldInfo, name: str) -> str:
    return f"| `{field.alias or name}` | {_type(field.annotation)} | {_default(field)} | {field.description} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default in ((), None) or isinstance(field.default, BaseModel):
        return ""
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _type(annotation: object) -> str:
    if get_origin(annotation) is Annotated:
        return _type(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return _TYPES[str]
    if get_origin(annotation) is tuple:
        return f"list of {_type(get_args(annotation)[0])}"
    if isinstance(annotation, type):
        return (
            f"[{name_of(annotation)}](#{name_of(annotation).lower()})"
            if issubclass(annotation, BaseModel)
            else _TYPES[annotation]
        )
    return _type(next(part for part in get_args(annotation) if part is not NoneType))
