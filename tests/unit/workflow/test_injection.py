# SPDX-License-Identifier: Apache-2.0
"""Hostile text in every field at once: the rendered script, run, never takes any of it for code."""

from __future__ import annotations

import sys
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.unit.workflow import networks
from tests.unit.workflow.at_random import text_of
from tests.unit.workflow.everything import STORED, WEB, hostile, poisoned
from tests.unit.workflow.node import Node

from gridstead.workflow.parse import from_graphql
from gridstead.workflow.render import render

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
    os.execv("/bin/bash", ["bash", "-c", f'. "{conf}"; exec() { :; }; cd() { :; }; rc'])
"""
CURL = """\
import sys
if "--output" in sys.argv:
    open(sys.argv[sys.argv.index("--output") + 1], "x").close()
"""


def new_node(place, *, enroot):
    """A node with everything, and nothing that runs what is the user's."""
    node = Node(place)
    networks.install(node)
    for name, text in {"apptainer": APPTAINER, "enroot": ENROOT, "curl": CURL}.items():
        if name != "enroot" or enroot:
            node.add(name, f"#!{sys.executable} -IS\n{text}")
    node.add("rclone", "#!/bin/sh\n")
    return node


@pytest.mark.parametrize("mapping", [WEB, STORED], ids=["web", "store"])
def test_workflow_of_everything_runs(tmp_path, mapping):
    """What the others start from is sound, so what they see is the hostile text's doing."""
    node = new_node(tmp_path, enroot=False)

    code, output = node.run(from_graphql(mapping, modules=text_of))

    assert code == 0, output
    assert len(networks.tunnels(node)) == 3
    assert node.left == []


@pytest.mark.parametrize("enroot", [False, True])
@pytest.mark.parametrize("mapping", [WEB, STORED], ids=["web", "store"])
@settings(
    max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_hostile_text_in_every_field_is_never_code(tmp_path_factory, mapping, enroot, seed):
    place = tmp_path_factory.mktemp("node")
    owned = place / "owned"
    hostile_mapping, count = poisoned(mapping, Random(seed), owned)
    node = new_node(place, enroot=enroot)

    node.run(from_graphql(hostile_mapping, modules=text_of))

    assert count > 25
    assert not owned.exists(), hostile_mapping
    assert not list(place.rglob("owned"))
    assert node.left == []


def test_detector_sees_code(tmp_path):
    """A text that is code by its nature makes the file that the others look for."""
    owned = tmp_path / "owned"
    node = Node(tmp_path)
    job = {
        "resources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1},
        "steps": [{"run": {"command": hostile(owned)[0]}}],
    }

    node.run(from_graphql(job))

    assert owned.exists()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_line_of_a_hostile_script_is_a_directive(seed):
    mapping, _ = poisoned({**WEB, "steps": WEB["steps"][:3]}, Random(seed), "/owned")
    lines = render(from_graphql(mapping, modules=text_of)).split("\n")

    first = next(number for number, line in enumerate(lines) if line.strip() and not line.startswith("#"))
    assert not any(line.startswith("#SBATCH") for line in lines[:first])
    assert not any("\r" in line for line in lines)
