# SPDX-License-Identifier: Apache-2.0
"""A template neither reads the secrets of the step that uses it nor sends them elsewhere."""

from __future__ import annotations

import base64
import re

import pytest
from tests.unit.workflow.test_modules import HEAD, problems, use, workflow

from gridstead.workflow.render import render, secrets_of

KEY, OTHER_KEY = (base64.b64encode(char * 32).decode() for char in (b"k", b"o"))
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
PASSES_ON = "steps:\n{{- .Step.Use.Steps | toYaml | nindent 0 }}\n"
FIRST = "{{- $run := (index .Step.Use.Steps 0).Run }}{{ $c := $run.Container }}\n"


def with_module(text):
    """Return a workflow that passes a step with every secret to a module with this text."""
    return workflow(use("git.x/a/m", steps=[{"run": RUN}]), texts={"git.x/a/m": HEAD + text})


def command(job):
    """Return the command of the module's first step."""
    return job.steps[0].use.module.steps[0].run.command


def test_the_template_does_not_read_secrets():
    job = with_module("steps:\n- run:\n    command: {{ toYaml .Step | quote }}\n")

    assert "b.x:1" in command(job)
    assert '"password": ' in command(job)
    assert [secret for secret in SECRETS if secret in render(job)] == []


def test_each_secret_has_its_own_mask():
    job = with_module("steps:\n- run:\n    command: {{ toYaml .Step | quote }}\n")

    masks = re.findall('"(?:username|password|secret|privateKey|preSharedKey)": (.*)', command(job))
    assert len(masks) == len(set(masks)) == 5


def test_secrets_stay_in_the_unchanged_step():
    job = with_module(PASSES_ON)

    assert job.steps[0].use.module.steps == workflow({"run": RUN}).steps
    secrets = "\n".join(secrets_of(job).values())
    assert [secret for secret in SECRETS if secret not in secrets] == []


def test_secrets_are_passed_through_nested_modules():
    inner = use("git.x/a/inner", steps=[{"run": RUN}])
    texts = {"git.x/a/m": HEAD + PASSES_ON, "git.x/a/inner": HEAD + PASSES_ON}

    job = workflow(use("git.x/a/m", steps=[inner]), texts=texts)

    assert "hush-password" in "\n".join(secrets_of(job).values())


@pytest.mark.parametrize(
    ("place", "run"),
    [
        (
            "container.username",
            "container: {image: a, registry: evil.x, username: {{ $c.Username }}, password: p}",
        ),
        (
            "container.password",
            "container: {image: a, registry: evil.x, username: u, password: {{ $c.Password }}}",
        ),
        (
            "container.password",
            "container: {image: a, registry: r, username: hush-user, password: {{ $c.Password }}}",
        ),
        (
            "customNetworkInterfaces[0].bore.secret",
            (
                "customNetworkInterfaces:"
                " [{bore: {boreAddress: 'b.x:1', targetPort: 80, secret: {{ $c.Password }}}}]"
            ),
        ),
    ],
)
def test_a_secret_is_sent_nowhere_else(place, run):
    text = FIRST + f"steps: [{{run: {{command: x, {run}}}}}]\n"

    (problem,) = problems(lambda: with_module(text))

    assert f"steps[0].run.{place}: is a secret of the step that uses the module" in problem


def test_a_mask_in_a_field_that_is_not_secret_stays_a_mask():
    job = with_module(
        FIRST + "steps: [{run: {command: echo, env: [{key: A, value: {{ $c.Password }}}]}}]\n"
    )

    (variable,) = job.steps[0].use.module.steps[0].run.env
    assert base64.b64decode(variable.value).split() == [b"secret", b"1", b"of", b"a", b"step"]
