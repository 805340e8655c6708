# SPDX-License-Identifier: Apache-2.0
"""The corpus: workflow files as grid users write them, and what each file says about itself.

The first comment of a file has lines ``# key: value``:

- ``ends``: the exit code of the job on a simulated node
- ``runs``: the names of the steps that Slurm starts, in any order; ``3 x a`` is three times ``a``
- ``programs``: programs of the job that the node simulates; ``a=3`` fails with exit code 3
- ``without``: programs that the node does not have
- ``warns``: the line, the path and the start of the reason of a warning; one line per warning
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from gridstead.workflow.field_paths import name_of
from gridstead.workflow.parse import check_workflow

FOLDER = Path(__file__).parents[2] / "corpus"
FILES = sorted((FOLDER / "workflows").glob("*.yaml"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a file of the corpus says about itself. ``runs`` counts the steps of each name."""

    ends: int
    runs: Counter[str]
    programs: dict[str, int]
    without: tuple[str, ...]
    warns: tuple[str, ...]


def expectation(file: Path) -> Expectation:
    """Return what the first comment of a file says."""
    values: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        if not line.startswith("#"):
            break
        key, _, value = line.removeprefix("# ").partition(": ")
        values.setdefault(key, []).append(value)
    return Expectation(
        ends=int(values["ends"][0]),
        runs=_counted(values["runs"]),
        programs=_exit_codes(values.get("programs", [])),
        without=tuple(_words(values.get("without", []))),
        warns=tuple(values.get("warns", [])),
    )


def _words(lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield from filter(None, line.split(", "))


def _counted(lines: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word in _words(lines):
        number, separator, name = word.partition(" x ")
        if separator:
            counts[name] += int(number)
        else:
            counts[word] += 1
    return counts


def _exit_codes(lines: list[str]) -> dict[str, int]:
    codes = {}
    for word in _words(lines):
        name, _, code = word.partition("=")
        codes[name] = int(code or 0)
    return codes


def fetch_module(source: object) -> str:
    """Return the text of the module in the folder of the corpus."""
    name = str(source).partition("@")[0].rpartition("/")[2]
    return (FOLDER / "modules" / f"{name}.yaml").read_text()


def check(file: Path):
    """Return the checked workflow of a file, with its modules."""
    return check_workflow(file.read_text(), fetch_module=fetch_module)


def used_values(model: BaseModel) -> Iterator[tuple[tuple[str, str], object]]:
    """Yield ((name of the mapping, name of the field), value) of each field that a file sets.

    Each item of a list is a value.
    """
    class_name = name_of(type(model)).replace("ResolvedUse", "StepUse")
    for name in model.model_fields_set:
        key = (class_name, type(model).model_fields[name].alias or name)
        value = getattr(model, name)
        if value == ():
            yield key, value
        for item in value if isinstance(value, tuple) else (value,):
            yield key, item
            if isinstance(item, BaseModel):
                yield from used_values(item)
