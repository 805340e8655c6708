# SPDX-License-Identifier: Apache-2.0
"""The pages about the code name what exists: the map of the modules, and the walk of a job."""

import ast
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.modules import load

CHECKOUT = Path(__file__).resolve().parents[3]
CONTROL = CHECKOUT / "control/gridstead"
WALK = (CHECKOUT / "docs/explanation/job-walk.md").read_text()
MOST_MODULES = 20
STEP = re.compile(r"^( *)- `([\w/]+\.py)` `([\w.]+)`:", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A line of the page; ``depth`` counts the lines above it that lead to its call."""

    depth: int
    module: str
    name: str

    @property
    def source(self):
        return (CONTROL / self.module).read_text()


def steps(text):
    """Return the steps in a part of the page, in its order."""
    return [Step(len(indent) // 2, *names) for indent, *names in STEP.findall(text)]


def calls(text):
    """Return the pairs of a caller and the step that it calls."""
    pairs, callers = [], []
    for step in steps(text):
        del callers[step.depth :]
        if callers:
            pairs.append((callers[-1], step))
        callers.append(step)
    return pairs


def rows():
    """Return the row of each layer by its name. The highest layer has row 0."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    (contract,) = (
        c
        for c in settings["tool"]["importlinter"]["contracts"]
        if c.get("containers") == ["gridstead"]
    )
    numbers = {}
    for number, row in enumerate(contract["layers"]):
        numbers |= dict.fromkeys(re.findall(r"\w+", row), number)
    return numbers


def defined_names(source):
    """Return the functions of a module, and its methods as ``Class.method``."""
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if hasattr(part, "name")}
    return names


TICKS, HELPERS = WALK.split("## Helpers")


def test_code_map_is_up_to_date():
    code_map = load(CHECKOUT / "tools/code_map.py")

    assert code_map.PAGE.read_text() == code_map.page(), "run tools/code_map.py"


def test_every_module_of_the_walk_is_a_step():
    """No module is named anywhere else on the page, where it would not count."""
    assert re.findall(r"[\w/]+\.py", WALK) == [step.module for step in steps(WALK)]


def test_walk_has_few_modules():
    assert len({step.module for step in steps(TICKS)}) <= MOST_MODULES


def test_helpers_are_not_modules_of_the_walk():
    walked = {step.module for step in steps(TICKS)}

    assert walked.isdisjoint(step.module for step in steps(HELPERS))


@pytest.mark.parametrize("step", sorted(set(steps(WALK)), key=str))
def test_function_of_the_walk_exists(step):
    assert step.name in defined_names(step.source)


@pytest.mark.parametrize(("caller", "step"), calls(TICKS))
def test_call_of_the_walk_is_in_the_source_of_its_caller(caller, step):
    assert re.search(rf"\b{step.name.split('.')[-1]}\b", caller.source)


@pytest.mark.parametrize(("caller", "step"), calls(TICKS))
def test_call_of_the_walk_enters_no_higher_layer(caller, step):
    row = rows()

    assert row[caller.module.split("/")[0]] <= row[step.module.split("/")[0]]


@pytest.mark.parametrize(
    ("module", "other"),
    [
        ("domain/supervisor/actions.py", "services/transactions/sender.py"),
        ("services/supervisor/supervisor.py", "services/transactions/sender.py"),
        ("services/transactions/sender.py", "domain.supervisor.actions.Put"),
    ],
)
def test_docstrings_at_both_ends_of_the_outbox_name_each_other(module, other):
    assert other in (CONTROL / module).read_text()
