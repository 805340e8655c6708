# SPDX-License-Identifier: Apache-2.0
"""Model, architecture and microarchitecture of the CPUs, from ``lscpu`` and ``archspec``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gridstead.domain.benchmarks.outputs.reading import Output, name_label
from gridstead.domain.jobs.job import Label


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """The CPUs of a node.

    Attributes:
        model: The name that the CPU has for itself.
        architecture: The name that the kernel uses, such as ``x86_64``.
        microarchitecture: The name of archspec, such as ``zen3``. Empty if it is not known.
    """

    model: str
    architecture: str
    microarchitecture: str = ""


def parse(lscpu_text: str, archspec_text: str | None) -> Processor:
    """Return the CPUs of a node.

    Args:
        lscpu_text: The output of ``lscpu --json``.
        archspec_text: The output of ``archspec cpu``. None if archspec is not installed.

    Raises:
        UnusableOutput: If an output is incomplete or has another format.
    """
    output = Output("lscpu", lscpu_text)
    values = dict(_fields(output, output.field(output.json(), "lscpu")))
    for name in ("Model name:", "Architecture:"):
        if not values.get(name):
            raise output.error(f"{name} is missing")
    microarchitecture = "" if archspec_text is None else _archspec(archspec_text)
    return Processor(
        model=values["Model name:"],
        architecture=values["Architecture:"],
        microarchitecture=microarchitecture,
    )


def _fields(output: Output, rows: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - JSON
    """Yield the fields of lscpu and their values. New versions nest fields."""
    pending = [rows]
    while pending:
        current_rows = pending.pop()
        if not isinstance(current_rows, list):
            raise output.error("lscpu is not a list of fields")
        for row in current_rows:
            yield str(output.field(row, "field")), str(output.field(row, "data") or "")
            pending.append(row.get("children", []))


def _archspec(text: str) -> str:
    output = Output("archspec", text)
    lines = output.lines()
    if len(lines) != 1 or not re.fullmatch("[a-z0-9_.-]{1,40}", lines[0]):
        raise output.error("it is not the name of one microarchitecture")
    return lines[0]


def labels(processors: Sequence[Processor]) -> tuple[Label, ...]:
    """Return the labels of a cluster. Different names are joined to one value.

    A label is left out if its value would be longer than 64 bytes.

    Args:
        processors: The CPUs of each node.
    """
    candidates = (
        name_label("arch", [each.architecture for each in processors]),
        name_label("cpu", [each.model for each in processors]),
        name_label("cpu.microarch", [each.microarchitecture for each in processors]),
    )
    return tuple(label for label in candidates if label is not None)
