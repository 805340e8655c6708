# SPDX-License-Identifier: Apache-2.0
"""Rules of containers, and how it is told that one is broken."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import workflow
from tests.unit.workflow.strategies import refusal

from gridstead.workflow.render.script import ScriptPaths

DEBIAN = {"image": "debian:12"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"image": "Debian"}, "container.image: is no image"),
        ({"image": "a b"}, "container.image: is no image"),
        ({"image": "a:b c"}, "container.image: is no image"),
        ({"image": "/a\nb"}, "container.image: is no path"),
        ({"image": "a", "registry": "http://x"}, "container.registry: is no registry"),
        ({"image": "a", "registry": "x/y"}, "container.registry: is no registry"),
        (
            {"image": "a", "username": "x"},
            "container: needs both username and password, or neither",
        ),
        (
            {"image": "a", "username": "x", "password": "a\nb"},
            "container.password: holds a character",
        ),
        (
            {"image": "a", "mounts": [{"hostDir": "a", "containerDir": "/b"}]},
            "hostDir: must be an absolute path",
        ),
        (
            {"image": "a", "mounts": [{"hostDir": "/a:b", "containerDir": "/b"}]},
            "hostDir: holds a character",
        ),
        (
            {"image": "a", "mounts": [{"hostDir": "/a b", "containerDir": "/b"}]},
            "hostDir: holds a character",
        ),
        (
            {"image": "a", "mounts": [{"hostDir": "/a", "containerDir": "/b "}]},
            "containerDir: holds a character",
        ),
        (
            {"image": "a", "mounts": [{"hostDir": "/a", "containerDir": "/b", "options": "x"}]},
            "options: must be ro or rw",
        ),
    ],
)
def test_rules(fields, expected):
    (problem,) = refusal(lambda: workflow({"run": {"command": "x", "container": fields}}))

    assert expected in str(problem)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({"command": ""}, "has an empty command, which only a container can have"),
        (
            {"command": "x", "shell": "ENTRYPOINT"},
            "has the shell ENTRYPOINT, which only a container can have",
        ),
        (
            {"command": "x", "shell": "/bin/ash"},
            "has the shell /bin/ash, which only a container can have",
        ),
        (
            {"command": "x", "mapUid": 5, "container": DEBIAN},
            "maps to another user than 0, which a container cannot",
        ),
        (
            {"command": "'x", "shell": "ENTRYPOINT", "container": DEBIAN},
            "has a command whose quotes do not end",
        ),
    ],
)
def test_what_only_a_container_can_have(run, expected):
    assert [problem.reason for problem in refusal(lambda: workflow({"run": run}))] == [expected]


def test_password_is_not_shown():
    job = workflow(
        {"run": {"command": "x", "container": {**DEBIAN, "username": "me-at", "password": "hush"}}}
    )

    assert "hush" not in repr(job)
    assert ScriptPaths().cache not in repr(job)
