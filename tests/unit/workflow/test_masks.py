# SPDX-License-Identifier: Apache-2.0
"""Secrets of a step that is passed to a module. Its template reads masks in place of secrets."""

from __future__ import annotations

import base64
import re

import pytest
from tests.unit.workflow.module_texts import MODULE_HEADER, use, workflow
from tests.unit.workflow.strategies import problems_of

from gridstead.workflow.render import render, secrets_of

KEY = base64.b64encode(b"k" * 32).decode()
OTHER_KEY = base64.b64encode(b"o" * 32).decode()
# The texts of RUN that are secret.
SECRETS = ("hush-user", "hush-password", "hush-token", KEY)
CONTAINER = {
    "image": "a", "registry": "r", "username": "hush-user", "password": "hush-password",
}  # fmt: skip
RUN = {
    "command": "x",
    "network": "slirp4netns",
    "container": CONTAINER,
    "customNetworkInterfaces": [
        {"bore": {"boreAddress": "b.x:1", "targetPort": 80, "secret": "hush-token"}},
        {
            "wireguard": {
                "privateKey": KEY,
                "peers": [{"publicKey": OTHER_KEY, "preSharedKey": KEY}],
            }
        },
    ],
}
# INSERT_STEPS is a module that inserts the given steps unchanged. READ_CONTAINER is the start of a
# module that reads the container of the first given step into $c.
INSERT_STEPS = "steps:\n{{- .Step.Use.Steps | toYaml | nindent 0 }}\n"
READ_CONTAINER = "{{- $run := (index .Step.Use.Steps 0).Run }}{{ $c := $run.Container }}\n"


def with_module(text):
    """Return a workflow that passes a step with every kind of secret to a module with ``text``."""
    return workflow(
        use("git.x/a/m", steps=[{"run": RUN}]), texts={"git.x/a/m": MODULE_HEADER + text}
    )


def command(job):
    """Return the command of the module's first step."""
    return job.steps[0].use.module.steps[0].run.command


def test_the_template_of_a_module_does_not_read_secrets():
    job = with_module("steps:\n- run:\n    command: {{ toYaml .Step | quote }}\n")

    assert "b.x:1" in command(job)
    assert '"password": ' in command(job)
    script = render(job)
    for secret in SECRETS:
        assert secret not in script


def test_each_secret_has_its_own_mask():
    job = with_module("steps:\n- run:\n    command: {{ toYaml .Step | quote }}\n")

    masks = re.findall('"(?:username|password|secret|privateKey|preSharedKey)": (.*)', command(job))
    assert len(masks) == 5
    assert len(set(masks)) == 5


def test_an_inserted_step_has_its_secrets():
    job = with_module(INSERT_STEPS)

    assert job.steps[0].use.module.steps == workflow({"run": RUN}).steps
    secrets = "\n".join(secrets_of(job).values())
    for secret in SECRETS:
        assert secret in secrets


def test_secrets_are_passed_through_nested_modules():
    inner = use("git.x/a/inner", steps=[{"run": RUN}])
    texts = {
        "git.x/a/m": MODULE_HEADER + INSERT_STEPS,
        "git.x/a/inner": MODULE_HEADER + INSERT_STEPS,
    }

    job = workflow(use("git.x/a/m", steps=[inner]), texts=texts)

    assert "hush-password" in "\n".join(secrets_of(job).values())


@pytest.mark.parametrize(
    ("path", "run_field"),
    [
        pytest.param(
            "container.username",
            "container: {image: a, registry: evil.x, username: {{ $c.Username }}, password: p}",
            id="user name to another registry",
        ),
        pytest.param(
            "container.password",
            "container: {image: a, registry: evil.x, username: u, password: {{ $c.Password }}}",
            id="password to another registry",
        ),
        pytest.param(
            "container.password",
            "container: {image: a, registry: r, username: hush-user, password: {{ $c.Password }}}",
            id="password with a user name that is typed instead of masked",
        ),
        pytest.param(
            "customNetworkInterfaces[0].bore.secret",
            (
                "customNetworkInterfaces:"
                " [{bore: {boreAddress: 'b.x:1', targetPort: 80, secret: {{ $c.Password }}}}]"
            ),
            id="password to a bore server",
        ),
    ],
)
def test_a_module_that_sends_a_secret_elsewhere_is_refused(path, run_field):
    text = READ_CONTAINER + "steps: [{run: {command: x, " + run_field + "}}]\n"

    (problem,) = problems_of(lambda: with_module(text))

    assert f"steps[0].run.{path}: is a secret of the step that uses the module" in str(problem)


def test_a_mask_in_another_field_is_not_replaced():
    job = with_module(
        READ_CONTAINER
        + "steps: [{run: {command: echo, env: [{key: A, value: {{ $c.Password }}}]}}]\n"
    )

    (variable,) = job.steps[0].use.module.steps[0].run.env
    # A mask is a text in base64. Secret 0 is the user name, and secret 1 the password.
    mask_text = b" ".join(base64.b64decode(variable.value).split())
    assert mask_text == b"secret 1 of a step"
