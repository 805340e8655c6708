# SPDX-License-Identifier: Apache-2.0
"""Tests of the rules about containers, and of the messages about broken rules."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import workflow
from tests.unit.workflow.strategies import problems_of

from gridstead.workflow.render import render, secrets_of
from gridstead.workflow.render.script import ScriptPaths

DEBIAN = {"image": "debian:12"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"image": "Debian"}, "container.image: is not an image"),
        ({"image": "a b"}, "container.image: is not an image"),
        ({"image": "a:b c"}, "container.image: is not an image"),
        ({"image": "/a\nb"}, "container.image: is not the path of an image"),
        ({"image": "a", "registry": "http://x"}, "container.registry: is not a registry"),
        ({"image": "a", "registry": "x/y"}, "container.registry: is not a registry"),
        (
            {"image": "a", "username": "x"},
            "container: needs both username and password, or neither",
        ),
        (
            {"image": "a", "username": "x", "password": ""},
            "container: needs both username and password, or neither",
        ),
        (
            {"image": "a", "password": "x"},
            "container: needs both username and password, or neither",
        ),
        (
            {"image": "a", "username": "x", "password": "a\nb"},
            "container.password: contains a character that is not allowed in names and passwords",
        ),
        (
            {"image": "a", "mounts": [{"hostDir": "a", "containerDir": "/b"}]},
            "hostDir: must be an absolute path",
        ),
        (
            {"image": "a", "mounts": [{"hostDir": "/a:b", "containerDir": "/b"}]},
            "hostDir: contains a character that is not allowed in a mounted folder",
        ),
        (
            {"image": "a", "mounts": [{"hostDir": "/a b", "containerDir": "/b"}]},
            "hostDir: contains a character that is not allowed in a mounted folder",
        ),
        (
            {"image": "a", "mounts": [{"hostDir": "/a", "containerDir": "/b "}]},
            "containerDir: contains a character that is not allowed in a mounted folder",
        ),
        (
            {"image": "a", "mounts": [{"hostDir": "/a", "containerDir": "/b", "options": "x"}]},
            "options: must be ro or rw",
        ),
    ],
)
def test_an_invalid_container_is_refused(fields, expected):
    (problem,) = problems_of(lambda: workflow({"run": {"command": "x", "container": fields}}))

    assert expected in str(problem)


@pytest.mark.parametrize("fields", [{}, {"password": ""}, {"password": "x"}])
def test_an_empty_registry_user_means_no_login(fields):
    container = {**DEBIAN, "username": "", **fields}

    job = workflow({"run": {"command": "x", "container": container}})

    assert secrets_of(job) == {}
    plain_job = workflow({"run": {"command": "x", "container": DEBIAN}})
    assert render(job) == render(plain_job)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({"command": ""}, "has an empty command, which is allowed only in a container"),
        (
            {"command": "x", "shell": "ENTRYPOINT"},
            "has the shell ENTRYPOINT, which is allowed only in a container",
        ),
        (
            {"command": "x", "shell": "/bin/ash"},
            "has the shell /bin/ash, which is allowed only in a container",
        ),
        (
            {"command": "x", "mapUid": 5, "container": {**DEBIAN, "apptainer": True}},
            "maps to a user other than 0, which Apptainer does not support",
        ),
        (
            {"command": "x", "mapGid": 5, "container": {**DEBIAN, "deepsquareHosted": True}},
            "maps to a user other than 0, which Apptainer does not support",
        ),
        (
            {"command": "'x", "shell": "ENTRYPOINT", "container": DEBIAN},
            "has a command with an unclosed quote",
        ),
    ],
)
def test_fields_that_depend_on_a_container_are_checked(run, expected):
    (problem,) = problems_of(lambda: workflow({"run": run}))

    assert problem.reason == expected


def test_the_repr_of_a_workflow_contains_no_password():
    private_workflow = workflow(
        {"run": {"command": "x", "container": {**DEBIAN, "username": "me-at", "password": "hush"}}}
    )

    assert "hush" not in repr(private_workflow)
    # The repr also has no paths on the provider's nodes.
    assert ScriptPaths().cache not in repr(private_workflow)
