# SPDX-License-Identifier: Apache-2.0
"""Secrets of a step that uses a module: its template neither sees them nor sends them elsewhere."""

from __future__ import annotations

import base64
import re

import pytest
from tests.unit.workflow.test_modules import HEAD, problems, use, workflow

from gridstead.workflow.render import render, secrets_of

KEY, OTHER_KEY = (base64.b64encode(letter * 32).decode() for letter in (b"k", b"o"))
SECRETS = ("hush-user", "hush-password", "hush-token", KEY)
RUN = {
    "command": "x", "network": "slirp4netns",
    "container": {"image": "a", "registry": "r", "username": "hush-user", "password": "hush-password"},
    "customNetworkInterfaces": [
        {"bore": {"boreAddress": "b.x:1", "targetPort": 80, "secret": "hush-token"}},
        {"wireguard": {"privateKey": KEY, "peers": [{"publicKey": OTHER_KEY, "preSharedKey": KEY}]}},
    ],
}  # fmt: skip
PASSES_ON = "steps:\n{{- .Step.Use.Steps | toYaml | nindent 0 }}\n"
FIRST = "{{- $run := (index .Step.Use.Steps 0).Run }}{{ $c := $run.Container }}\n"


def passed(text):
    """A workflow whose module of this text is passed a step with every secret."""
    return workflow(use("git.x/a/m", steps=[{"run": RUN}]), texts={"git.x/a/m": HEAD + text})


def command(job):
    """The command of a module's first step."""
    return job.steps[0].use.module.steps[0].run.command


def test_secrets_are_not_told():
    job = passed("steps:\n- run:\n    command: {{ toYaml .Step | quote }}\n")

    assert "b.x:1" in command(job)
    assert '"password": ' in command(job)
    assert [secret for secret in SECRETS if secret in render(job)] == []


def test_secrets_have_masks_of_their_own():
    job = passed("steps:\n- run:\n    command: {{ toYaml .Step | quote }}\n")

    masks = re.findall('"(?:username|password|secret|privateKey|preSharedKey)": (.*)', command(job))
    assert len(masks) == len(set(masks)) == 5


def test_secrets_go_with_the_step_that_has_them():
    job = passed(PASSES_ON)

    assert job.steps[0].use.module.steps == workflow({"run": RUN}).steps
    beside = "\n".join(secrets_of(job).values())
    assert [secret for secret in SECRETS if secret not in beside] == []


def test_secrets_go_through_modules_in_modules():
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
            "customNetworkInterfaces: [{bore: {boreAddress: 'b.x:1', targetPort: 80, secret: {{ $c.Password }}}}]",
        ),
    ],
)
def test_secret_is_sent_nowhere_else(place, run):
    text = FIRST + f"steps: [{{run: {{command: x, {run}}}}}]\n"

    (problem,) = problems(lambda: passed(text))

    assert f"steps[0].run.{place}: is a secret of the step that uses the module" in problem


def test_mask_in_another_kind_of_place_is_a_word_that_says_nothing():
    job = passed(
        FIRST + "steps: [{run: {command: echo, env: [{key: A, value: {{ $c.Password }}}]}}]\n"
    )

    (variable,) = job.steps[0].use.module.steps[0].run.env
    assert base64.b64decode(variable.value).split() == [b"secret", b"1", b"of", b"a", b"step"]
