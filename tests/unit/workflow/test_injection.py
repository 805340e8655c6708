# SPDX-License-Identifier: Apache-2.0
"""Injection attempts: workflows with a hostile text in every field.

The rendered script must not execute a hostile text, and must not pass it to a program as an option.
A rotation is one selection of a text for each field. ``make hostile`` tries all rotations, so it
tests each text in each field that accepts the text. ``make test`` tries three rotations, and
``make check`` tries the first of them.
"""

from __future__ import annotations

import os
import sys

import pytest
from tests.unit.workflow import networks
from tests.unit.workflow.all_fields import HTTP_WORKFLOW, MODULE, S3_WORKFLOW
from tests.unit.workflow.fields import scalars_in, text_fields, value_at
from tests.unit.workflow.injections import CODE_FIELDS, hostile_texts, inject, rotation_count
from tests.unit.workflow.node import SRUN, Node
from tests.unit.workflow.random_workflows import ALL_TESTS, module_text
from tests.unit.workflow.shell_checks import slurm_directives

from gridstead.workflow.parse import from_graphql
from gridstead.workflow.render import render
from gridstead.workflow.schema import Module, Workflow

ROTATIONS = (0, 35, 97) if ALL_TESTS else (0,)
if os.environ.get("GRIDSTEAD_HOSTILE"):
    ROTATIONS = range(rotation_count())

# The start of each simulated program. It creates the file ``owned`` if a hostile text is one of the
# program's options. The words after the image or the container belong to the inner command.
OPTION_DETECTOR = """\
import sys
options_with_value = {"--pwd", "--bind", "--name", "--mount", "--env", "--conf", "--output"}
options_with_value.add("--config")
for previous, word in zip(sys.argv, sys.argv[1:]):
    if word == "--":
        break
    if word.startswith(("/", "gridstead-")) and previous not in options_with_value:
        break
    if word.startswith("--owned="):
        open(word[8:], "x")
"""
SRUN_OPTION_DETECTOR = """\
for word; do
  [[ $word == -* ]] || break
  if [[ $word == --owned=* ]]; then touch "${word#--owned=}"; fi
done
"""
# The simulated runtimes do not run the command of a container, which may be any code.
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


def new_node(root, *, enroot=False):
    """Return a node whose programs detect options. Enroot is installed only on request."""
    node = Node(root)
    networks.install(node)
    node.add_program("srun", SRUN.replace("\n", f"\n{SRUN_OPTION_DETECTOR}", 1))
    programs = {"apptainer": APPTAINER, "curl": CURL, "rclone": ""}
    if enroot:
        programs["enroot"] = ENROOT
    for name, text in programs.items():
        node.add_program(name, f"#!{sys.executable} -IS\n{OPTION_DETECTOR}{text}")
    return node


def parse(mapping, module=MODULE):
    return from_graphql(mapping, fetch_module=lambda _: module_text(module))


def test_the_workflows_contain_every_text_field_of_the_language():
    """A new field in the schema must be added to all_fields.py."""
    contained_fields = set()
    for mapping, model in ((HTTP_WORKFLOW, Workflow), (S3_WORKFLOW, Workflow), (MODULE, Module)):
        for path, field in scalars_in(mapping, model):
            if isinstance(value_at(mapping, path), str):
                contained_fields.add(field)

    assert text_fields() - contained_fields == set()


@pytest.mark.parametrize("enroot", [False, True], ids=["apptainer", "enroot"])
@pytest.mark.parametrize("mapping", [HTTP_WORKFLOW, S3_WORKFLOW], ids=["http", "s3"])
def test_the_workflow_with_all_fields_runs(tmp_path, mapping, enroot):
    """The workflows run without hostile texts.

    If this test passes and another test fails, the hostile texts are the cause.
    """
    node = new_node(tmp_path, enroot=enroot)

    code, output = node.run(parse(mapping))

    assert code == 0, output
    # The step's tunnel, the gateway of the virtual network, and the step's end of the network.
    assert len(networks.tunnels(node)) == 3
    assert node.leftover_files == []


@pytest.mark.parametrize("rotation", ROTATIONS)
@pytest.mark.parametrize("enroot", [False, True], ids=["apptainer", "enroot"])
@pytest.mark.parametrize("mapping", [HTTP_WORKFLOW, S3_WORKFLOW], ids=["http", "s3"])
def test_hostile_text_in_every_field_is_never_executed(tmp_path, mapping, enroot, rotation):
    owned_file = tmp_path / "owned"
    job, job_fields = inject(mapping, rotation, owned_file)
    module, module_fields = inject(MODULE, rotation, owned_file, Module)
    node = new_node(tmp_path, enroot=enroot)

    node.run(parse(job, module))

    # Most fields that accept hostile texts must contain one, so that they are really tested.
    min_field_count = 19 if mapping is HTTP_WORKFLOW else 24
    assert len(job_fields | module_fields) >= min_field_count
    assert not list(tmp_path.rglob("owned")), (job, module)
    assert node.leftover_files == []


@pytest.mark.parametrize("field", CODE_FIELDS)
def test_an_executed_text_is_detected(tmp_path, field):
    """A text in a field that bash executes creates the file that the other tests look for."""
    owned = tmp_path / "owned"
    node = new_node(tmp_path)
    text = hostile_texts(owned)[0]
    _, name = field
    step = {"run": {"command": text}} if name == "command" else {"if": f"-n {text}"}

    node.run(from_graphql({"resources": HTTP_WORKFLOW["resources"], "steps": [step]}))

    assert owned.exists()


@pytest.mark.parametrize("program", ["srun", "apptainer", "enroot", "curl", "rclone"])
def test_a_hostile_option_of_a_program_is_detected(tmp_path, program):
    owned = tmp_path / "owned"
    node = new_node(tmp_path, enroot=True)
    step = {"run": {"command": f"PATH={node.bin}:$PATH; {program} --owned={owned} x x x"}}

    node.run(from_graphql({"resources": HTTP_WORKFLOW["resources"], "steps": [step]}))

    assert owned.exists()


@pytest.mark.parametrize("rotation", range(0, rotation_count(), 3))
def test_no_line_of_a_hostile_script_is_a_slurm_directive(rotation):
    mapping, _ = inject(HTTP_WORKFLOW, rotation, "/owned")

    script = render(parse(mapping))

    assert slurm_directives(script) == []
    assert "\r" not in script
