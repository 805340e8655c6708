# SPDX-License-Identifier: Apache-2.0
"""Hostile text in every field at once: the rendered script, run, never takes any of it for code or
for an option.

``make hostile`` puts each text into each field that takes it; each run here takes some.
"""

from __future__ import annotations

import os
import sys

import pytest
from tests.unit.workflow import networks
from tests.unit.workflow.all_fields import MODULE, STORED, WEB
from tests.unit.workflow.at_random import module_text
from tests.unit.workflow.fields import at, places_in, text_fields
from tests.unit.workflow.injections import CODE, hostile, most, poisoned
from tests.unit.workflow.node import SRUN, Node

from gridstead.workflow.parse import from_graphql
from gridstead.workflow.render import render
from gridstead.workflow.schema import Module, Workflow

TURNS = range(most()) if os.environ.get("GRIDSTEAD_HOSTILE") else (0, 35, 97)

# Each program of the node makes the file if a text of ours has become an option of its own.
# Behind the image or the container there are words of the command within.
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
# They keep a container's command from running: it is the user's, and would.
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
    """A node with everything, and nothing that runs what is the user's."""
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


def test_every_text_field_of_the_language_is_there():
    """A field that is new in the schema fails this until everything.py holds it."""
    sides = ((WEB, Workflow), (STORED, Workflow), (MODULE, Module))
    held = {
        field
        for side, model in sides
        for path, field in places_in(side, model)
        if isinstance(at(side, path), str)
    }

    assert text_fields() - held == set()


@pytest.mark.parametrize("enroot", [False, True], ids=["apptainer", "enroot"])
@pytest.mark.parametrize("mapping", [WEB, STORED], ids=["web", "store"])
def test_workflow_of_everything_runs(tmp_path, mapping, enroot):
    """What the others start from is sound, so what they see is the hostile text's doing."""
    node = new_node(tmp_path, enroot=enroot)

    code, output = node.run(parsed(mapping))

    assert code == 0, output
    assert len(networks.tunnels(node)) == 3
    assert node.left == []


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("enroot", [False, True], ids=["apptainer", "enroot"])
@pytest.mark.parametrize("mapping", [WEB, STORED], ids=["web", "store"])
def test_hostile_text_in_every_field_is_never_code(tmp_path, mapping, enroot, turn):
    owned = tmp_path / "owned"
    job, of_job = poisoned(mapping, turn, owned)
    module, of_module = poisoned(MODULE, turn, owned, Module)
    node = new_node(tmp_path, enroot=enroot)

    node.run(parsed(job, module))

    assert len(of_job | of_module) >= (19 if mapping is WEB else 24)
    assert not list(tmp_path.rglob("owned")), (job, module)
    assert node.left == []


@pytest.mark.parametrize("field", CODE)
def test_detector_sees_code(tmp_path, field):
    """A text that is code by its nature makes the file that the others look for."""
    owned = tmp_path / "owned"
    node = new_node(tmp_path)
    step = (
        {"run": {"command": hostile(owned)[0]}}
        if field[1] == "command"
        else {"if": f"-n {hostile(owned)[0]}"}
    )

    node.run(from_graphql({"resources": WEB["resources"], "steps": [step]}))

    assert owned.exists()


@pytest.mark.parametrize("program", ["srun", "apptainer", "enroot", "curl", "rclone"])
def test_detector_sees_options(tmp_path, program):
    owned = tmp_path / "owned"
    node = new_node(tmp_path, enroot=True)
    step = {"run": {"command": f"PATH={node.bin}:$PATH; {program} --owned={owned} x x x"}}

    node.run(from_graphql({"resources": WEB["resources"], "steps": [step]}))

    assert owned.exists()


@pytest.mark.parametrize("turn", range(0, most(), 3))
def test_no_line_of_a_hostile_script_is_a_directive(turn):
    lines = render(parsed(poisoned(WEB, turn, "/owned")[0])).split("\n")

    first = next(
        number for number, line in enumerate(lines) if line.strip() and not line.startswith("#")
    )
    assert not any(line.startswith("#SBATCH") for line in lines[:first])
    assert not any("\r" in line for line in lines)
