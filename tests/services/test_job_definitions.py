# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service: what it stores, and what a job gets."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.fakes.definitions import wire_workflow
from tests.services.scene import CUSTOMER, KEY, STORE, Scene

from gridstead.domain.ids import is_batch_location_hash
from gridstead.domain.lifecycle import COLD, HOT, JobState
from gridstead.domain.log import edition_of
from gridstead.domain.log_access import LONGEST_TOKEN_S, parse_token
from gridstead.errors import (
    ChainUnavailable,
    ConfigError,
    InvalidInput,
    InvalidWorkflow,
    JobDefinitionUnavailable,
    ModuleUnavailable,
    ScriptDamaged,
    ScriptUnavailable,
    TooMuch,
)
from gridstead.services.job_definitions import LoggerAccess


def test_broken_workflow_is_not_stored(scene):
    with pytest.raises(InvalidWorkflow):
        scene.submit(steps=[])

    assert len(scene.scripts.records) == 1


MODULE = """\
name: Greeting
description: Greets.
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
steps: [{run: {command: echo hello from a module}}]
"""
USE = [{"use": {"source": "git.x/a/b@v1"}}]


def test_module_is_in_the_script(scene):
    scene.modules.texts["git.x/a/b@v1"] = MODULE

    script_id = scene.submit(steps=USE)

    assert "hello from a module" in scene.scripts.records[script_id]


def test_module_that_cannot_be_used_is_the_users_error_and_nothing_is_stored(scene):
    with pytest.raises(InvalidWorkflow) as caught:
        scene.submit(steps=USE)

    assert caught.value.problems[0].path == "steps[0].use.source"
    assert len(scene.scripts.records) == 1


def test_module_that_does_not_come_is_not_the_users_error_and_nothing_is_stored(scene):
    scene.modules.unavailable = True

    with pytest.raises(ModuleUnavailable):
        scene.submit(steps=USE)

    assert len(scene.scripts.records) == 1


def test_modules_of_one_workflow_do_not_take_very_long(scene, monkeypatch):
    scene.modules.texts["git.x/a/b@v1"] = MODULE
    fetch = scene.modules.text

    def slow(source):
        scene.clock.advance(40)
        return fetch(source)

    monkeypatch.setattr(scene.modules, "text", slow)

    with pytest.raises(ModuleUnavailable, match="it took too long"):
        scene.submit(steps=USE * 5)

    assert len(scene.modules.asked) == 2


def test_id_is_short_safe_and_tells_nothing_of_equal_scripts(scene):
    again = scene.submit(enableLogging=True)

    assert again != scene.script_id
    assert is_batch_location_hash(again)
    assert len(again) == 31


def test_caller_is_charged_for_what_its_workflow_becomes(scene):
    """A few kilobytes of empty steps become a script a hundred times as large."""
    script_id = scene.submit(steps=[{"steps": [{}] * 255}] * 4)

    assert scene.charged[-1] == len(scene.scripts.records[script_id]) > 40_000


def test_caller_that_has_sent_too_much_stores_nothing(scene):
    def charge(_):
        raise TooMuch("too many requests")

    with pytest.raises(TooMuch):
        scene.service.submit(wire_workflow(), "", charge)

    assert len(scene.scripts.records) == 1


def test_workflow_that_becomes_too_much_is_not_stored(scene):
    with pytest.raises(InvalidInput, match="its script takes at least"):
        scene.submit(steps=[{"run": {"command": "'" * 100_000}}] * 4)

    assert len(scene.scripts.records) == 1


@pytest.mark.parametrize(
    ("workflow", "stored"),
    [({}, False), ({"enableLogging": True}, True), ({"enableLogging": True, "input": {"s3": STORE}}, False)],
)
def test_script_without_secrets_is_stored_only_where_it_is_another_one(scene, workflow, stored):
    record = json.loads(scene.scripts.records[scene.submit(**workflow)])

    assert ("script_without_secrets" in record) == stored


def test_job_gets_its_script_and_a_token_for_its_own_log(scene):
    answer = scene.service.get_sbatch(scene.request())

    assert "echo hello" in answer.script
    permit = parse_token(KEY, answer.log_write_token, owner=CUSTOMER, log_name=scene.job.id.slurm_name)
    assert permit.log.edition == edition_of(scene.job.proof)
    assert permit.expires_at == scene.clock.now() + LONGEST_TOKEN_S
    assert answer.secrets["GRIDSTEAD_LOG_TOKEN"].decode() == answer.log_write_token
    assert answer.log_write_token not in answer.script
    assert answer.log_write_token not in repr(answer)


def test_job_without_logging_gets_no_secrets():
    scene = Scene()

    assert scene.service.get_sbatch(scene.request()).secrets == {}


@pytest.mark.parametrize("logged", [True, False])
def test_caller_without_secrets_gets_a_script_without_logging(logged):
    scene = Scene(enableLogging=logged)

    answer = scene.service.get_sbatch(scene.request(secrets_beside=False))

    assert ("logging is off" in answer.script) == logged
    assert "GRIDSTEAD_LOG" not in answer.script
    assert (answer.secrets, answer.log_write_token) == ({}, "")


@pytest.mark.parametrize("logged", [True, False])
def test_secrets_of_a_workflow_come_beside_its_script(logged):
    scene = Scene(enableLogging=logged, input={"s3": STORE})

    answer = scene.service.get_sbatch(scene.request())

    assert "hush" not in answer.script
    assert b"secret_access_key = hush\n" in answer.secrets["GRIDSTEAD_INPUT"]
    assert ("GRIDSTEAD_LOG_TOKEN" in answer.secrets) == logged
    assert "hush" not in repr(answer)


def test_caller_that_cannot_take_secrets_gets_no_script_that_needs_them():
    scene = Scene(input={"s3": STORE})

    with pytest.raises(ScriptUnavailable) as caught:
        scene.service.get_sbatch(scene.request(secrets_beside=False))

    assert "the job has secrets" in caught.value.detail


@pytest.mark.parametrize("state", sorted(HOT - {JobState.PENDING}))
def test_matched_job_that_is_hot_gets_its_script(scene, state):
    scene.ledger.job = replace(scene.job, state=state)

    assert scene.service.get_sbatch(scene.request()).script


@pytest.mark.parametrize("state", sorted(COLD))
def test_job_that_is_over_gets_nothing(scene, state):
    scene.ledger.job = replace(scene.job, state=state)

    with pytest.raises(ScriptUnavailable):
        scene.service.get_sbatch(scene.request())


@pytest.mark.parametrize("job", ["unknown", "pending"])
def test_job_that_our_node_has_not_seen_matched_yet_is_asked_for_again(scene, job):
    scene.ledger.job = None if job == "unknown" else replace(scene.job, state=JobState.PENDING, provider="")

    with pytest.raises(ChainUnavailable):
        scene.service.get_sbatch(scene.request())


def test_script_of_another_job_is_not_given(scene):
    """A hash is public on the chain; only the job that carries it opens the script."""
    other = scene.submit(env=[{"key": "SECRET", "value": "x"}])

    with pytest.raises(ScriptUnavailable):
        scene.service.get_sbatch(scene.request(batch_location_hash=other))


def test_script_that_is_not_stored_is_unavailable(scene):
    scene.scripts.records.clear()

    with pytest.raises(ScriptUnavailable):
        scene.service.get_sbatch(scene.request())


@pytest.mark.parametrize("error", [ConfigError("no key ab12"), ScriptDamaged("altered")])
def test_script_that_does_not_open_is_the_operators_and_no_job_fails_for_it(scene, error, capsys):
    def get(_):
        raise error

    scene.scripts.get = get

    with pytest.raises(JobDefinitionUnavailable) as caught:
        scene.service.get_sbatch(scene.request())

    assert str(error) not in str(caught.value)
    assert "script_unreadable" in capsys.readouterr().out


def test_chain_that_does_not_answer_is_told(scene):
    scene.ledger.down = True

    with pytest.raises(ChainUnavailable):
        scene.service.get_sbatch(scene.request())


def test_nothing_of_a_workflow_is_logged(capsys):
    scene = Scene(env=[{"key": "PASSWORD", "value": "very-secret"}], enableLogging=True)
    answer = scene.service.get_sbatch(scene.request())

    printed = capsys.readouterr().out
    assert "workflow_stored" in printed
    assert "script_given" in printed
    assert "very-secret" not in printed
    assert answer.log_write_token not in printed


def test_short_key_is_the_operators():
    with pytest.raises(ConfigError):
        LoggerAccess(url="x", key=b"short")
