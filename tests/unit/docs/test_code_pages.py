# SPDX-License-Identifier: Apache-2.0
"""Tests that the code map and docs/explanation/job-walk.md agree with the code.

The page job-walk.md lists the function calls that a job causes, one per line. Such a line is called
a step. An indented step is called by the nearest step above with less indentation.
"""

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
MAX_MODULES = 20
STEP_LINE = re.compile(r"^( *)- `([\w/]+\.py)` `([\w.]+)`:", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A step. ``depth`` is the indentation: the number of direct and indirect callers."""

    depth: int
    module: str
    name: str

    @property
    def module_source(self):
        return (CONTROL / self.module).read_text()


def steps(text):
    """Return the steps in a part of the page, in the order of the page."""
    steps_on_page = []
    for indent, module, name in STEP_LINE.findall(text):
        steps_on_page.append(Step(depth=len(indent) // 2, module=module, name=name))
    return steps_on_page


def calls(text):
    """Return each call in a part of the page as a pair: the calling step and the called step."""
    pairs = []
    callers = []
    for step in steps(text):
        # Keep only the direct and indirect callers of this step.
        del callers[step.depth :]
        if callers:
            pairs.append((callers[-1], step))
        callers.append(step)
    return pairs


def layer_positions():
    """Return the position of each layer by its name. The highest layer has position 0."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (
        contract["layers"] for contract in contracts if contract.get("containers") == ["gridstead"]
    )
    positions = {}
    for position, names in enumerate(layers):
        for name in re.findall(r"\w+", names):
            positions[name] = position
    return positions


def defined_names(source):
    """Return the names of a module's functions, and the module's methods as ``Class.method``."""
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if hasattr(member, "name"):
                    names.add(f"{node.name}.{member.name}")
    return names


@pytest.fixture(scope="module")
def all_names():
    """The names of the functions and methods of all modules of the control plane."""
    names = set()
    for module in CONTROL.rglob("*.py"):
        names |= defined_names(module.read_text())
    return names


# A tick is one pass of a service's loop. The part of the page before the heading "Helpers" lists
# the steps of the ticks. The part below lists functions that these steps call, but that do not pass
# the job on.
TICKS, HELPERS = WALK.split("## Helpers")


def test_code_map_is_up_to_date():
    code_map = load(CHECKOUT / "tools/code_map.py")

    assert code_map.PAGE.read_text() == code_map.page(), "run tools/code_map.py"


def test_every_module_on_the_page_is_in_a_step():
    """The other tests check only the modules that are named in steps."""
    assert re.findall(r"[\w/]+\.py", WALK) == [step.module for step in steps(WALK)]


def test_walk_has_at_most_20_modules():
    assert len({step.module for step in steps(TICKS)}) <= MAX_MODULES


def test_helpers_are_not_in_modules_of_the_walk():
    walk_modules = {step.module for step in steps(TICKS)}
    helper_modules = {step.module for step in steps(HELPERS)}

    assert walk_modules.isdisjoint(helper_modules)


@pytest.mark.parametrize("step", sorted(set(steps(WALK)), key=str))
def test_function_of_a_step_exists(step):
    assert step.name in defined_names(step.module_source)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([A-Z]\w+\.\w+)`", WALK))))
def test_method_in_the_text_exists(name, all_names):
    assert name in all_names


@pytest.mark.parametrize(("caller", "step"), calls(TICKS))
def test_module_of_a_caller_contains_the_name_of_the_called_function(caller, step):
    function = step.name.rpartition(".")[2]

    assert re.search(rf"\b{function}\b", caller.module_source)


@pytest.mark.parametrize(("caller", "step"), calls(TICKS))
def test_step_does_not_call_a_higher_layer(caller, step):
    positions = layer_positions()
    caller_layer = caller.module.split("/")[0]
    step_layer = step.module.split("/")[0]

    assert positions[caller_layer] <= positions[step_layer]


@pytest.mark.parametrize(
    ("module", "other_name"),
    [
        ("domain/supervisor/actions.py", "services/transactions/sender.py"),
        ("services/supervisor/supervisor.py", "services/transactions/sender.py"),
        ("services/transactions/sender.py", "domain.supervisor.actions.Put"),
    ],
)
def test_writer_and_reader_of_the_outbox_name_each_other(module, other_name):
    assert other_name in (CONTROL / module).read_text()
