# SPDX-License-Identifier: Apache-2.0
"""Hostile text in every field at the same time.

The rendered script never executes the text, and no program reads it as an option.
``make hostile`` tries each text in each field that accepts it. A normal run tries some.
"""

from __future__ import annotations

import os
import sys

import pytest
from tests.unit.workflow import networks
from tests.unit.workflow.all_fields import MODULE, STORED, WEB
from tests.unit.workflow.at_random import module_text
from tests.unit.workflow.fields import places_in, text_fields, value_at
from tests.unit.workflow.injections import CODE, hostile, max_turns, poisoned
from tests.unit.workflow.node import SRUN, Node

from gridstead.workflow.parse import from_graphql
from gridstead.workflow.render import render
from gridstead.workflow.schema import Module, Workflow

TURNS = range(max_turns()) if os.environ.get("GRIDSTEAD_HOSTILE") else (0, 35, 97)

# Each program of the node creates the file if a hostile text is an option of its own. The words
# after the image or the container belong to the inner command.
OPTIONS = """\
import sys
valued = ("--pwd", "--bind", "--name", "--mount", "--env", "--conf", "--output", "--config")
for before, word in zip(sys.argv, sys.argv[1:]):
    if word == "--" or (word.startswith(("/", "gridstead-")) and before not in valued):
        break
    if word.startswith("--owned="):
        open(word[8:], "x")
"""
OPTIONS_OF_SRUN = """\
for word; do
  [[ $word == -* ]] || break
  if [[ $word == --owned=* ]]; then touch "${word#--owned=}"; fi
done
"""
# They do not run the command of a container, which is the user's code.
APPTAINER = """\
import os, sys
if sys.argv[2] == "pull":
    open(sys.argv[-2], "x").close()
"""
ENROOT = """\
import os, sys
if sys.argv[1] == "import":
    open(sys.argv[3], "x").close()
elif sys.argv[1] == "start" and "--conf" in sys.argv:
    conf = sys.argv[sys.argv.index("--conf") + 1]
    os.execv("/bin/bash", ["bash", "-c", f'. "{conf}"; exec() {{ :; }}; cd() {{ :; }}; rc'])
"""
CURL = """\
import sys
if "--output" in sys.argv:
    open(sys.argv[sys.argv.index("--output") + 1], "x").close()
"""


def new_node(place, *, enroot=False):
    """Return a node with all programs. None of them runs the user's code."""
    node = Node(place)
    networks.install(node)
    node.add("srun", SRUN.replace("\n", f"\n{OPTIONS_OF_SRUN}", 1))
    for name, text in {
        "apptainer": APPTAINER,
        "enroot": ENROOT,
        "curl": CURL,
        "rclone": "",
    }.items():
        if name != "enroot" or enroot:
            node.add(name, f"#!{sys.executable} -IS\n{OPTIONS}{text}")
    return node


def parsed(mapping, module=MODULE):
    return from_graphql(mapping, modules=lambda _: module_text(module))


def test_the_workflows_contain_every_text_field_of_the_language():
    """A new field in the schema must be added to all_fields.py."""
    present = set()
    for mapping, model in ((WEB, Workflow), (STORED, Workflow), (MODULE, Module)):
        for path, field in places_in(mapping, model):
            if isinstance(value_at(mapping, path), str):
                present.add(field)

    assert text_fields() - present == set()


@pytest.mark.parametrize("enroot", [False, True], ids=["apptainer", "enroot"])
@pytest.mark.parametrize("mapping", [WEB, STORED], ids=["web", "store"])
def test_the_workflow_with_all_fields_runs(tmp_path, mapping, enroot):
    """So a failure of the other tests is caused by the hostile text."""
    node = new_node(tmp_path, enroot=enroot)

    code, output = node.run(parsed(mapping))

    assert code == 0, output
    assert len(networks.tunnels(node)) == 3
    assert node.left == []


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("enroot", [False, True], ids=["apptainer", "enroot"])
@pytest.mark.parametrize("mapping", [WEB, STORED], ids=["web", "store"])
def test_hostile_text_in_every_field_is_never_executed(tmp_path, mapping, enroot, turn):
    owned = tmp_path / "owned"
    job, job_fields = poisoned(mapping, turn, owned)
    module, module_fields = poisoned(MODULE, turn, owned, Module)
    node = new_node(tmp_path, enroot=enroot)

    node.run(parsed(job, module))

    assert len(job_fields | module_fields) >= (19 if mapping is WEB else 24)
    assert not list(tmp_path.rglob("owned")), (job, module)
    assert node.left == []


@pytest.mark.parametrize("field", CODE)
def test_the_detector_notices_executed_text(tmp_path, field):
    """A text in a field of code creates the file that the other tests look for."""
    owned = tmp_path / "owned"
    node = new_node(tmp_path)
    text = hostile(owned)[0]
    step = {"run": {"command": text}} if field[1] == "command" else {"if": f"-n {text}"}

    node.run(from_graphql({"resources": WEB["resources"], "steps": [step]}))

    assert owned.exists()


@pytest.mark.parametrize("program", ["srun", "apptainer", "enroot", "curl", "rclone"])
def test_the_detector_notices_options(tmp_path, program):
    owned = tmp_path / "owned"
    node = new_node(tmp_path, enroot=True)
    step = {"run": {"command": f"PATH={node.bin}:$PATH; {program} --owned={owned} x x x"}}

    node.run(from_graphql({"resources": WEB["resources"], "steps": [step]}))

    assert owned.exists()


@pytest.mark.parametrize("turn", range(0, max_turns(), 3))
def test_no_line_of_a_hostile_script_is_a_slurm_directive(turn):
    lines = render(parsed(poisoned(WEB, turn, "/owned")[0])).split("\n")

    first = next(
        number for number, line in enumerate(lines) if line.strip() and not line.startswith("#")
    )
    assert not any(line.startswith("#SBATCH") for line in lines[:first])
    assert not any("\r" in line for line in lines)
