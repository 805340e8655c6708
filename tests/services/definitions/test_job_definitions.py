# SPDX-License-Identifier: Apache-2.0
"""Tests of the Job Definition service: the stored scripts, and the answers for jobs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.fakes.definitions import wire_workflow
from tests.services.definitions.script_setup import CUSTOMER, KEY, STORE, DefinitionsSetup

from gridstead.domain.jobs.ids import is_batch_location_hash
from gridstead.domain.jobs.lifecycle import COLD, HOT, JobState
from gridstead.domain.logs.access import MAX_TOKEN_LIFE_S, parse_token
from gridstead.domain.logs.log import log_identity_of
from gridstead.errors import (
    ChainUnavailable,
    ConfigError,
    InvalidInput,
    InvalidWorkflow,
    JobDefinitionUnavailable,
    LimitExceeded,
    ModuleUnavailable,
    ScriptDamaged,
    ScriptUnavailable,
)
from gridstead.services.definitions.job_definitions import LoggerAccess


def test_invalid_workflow_is_not_stored(definitions_setup):
    with pytest.raises(InvalidWorkflow):
        definitions_setup.submit(steps=[])

    assert len(definitions_setup.scripts.records) == 1


MODULE = """\
name: Greeting
description: Greets.
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
steps: [{run: {command: echo hello from a module}}]
"""
STEPS_WITH_MODULE = [{"use": {"source": "git.x/a/b@v1"}}]


def test_script_contains_the_steps_of_a_module(definitions_setup):
    definitions_setup.modules.texts["git.x/a/b@v1"] = MODULE

    script_id = definitions_setup.submit(steps=STEPS_WITH_MODULE)

    assert "hello from a module" in definitions_setup.scripts.records[script_id]


def test_unknown_module_makes_the_workflow_invalid(definitions_setup):
    with pytest.raises(InvalidWorkflow) as caught:
        definitions_setup.submit(steps=STEPS_WITH_MODULE)

    assert caught.value.problems[0].path == "steps[0].use.source"
    assert len(definitions_setup.scripts.records) == 1


def test_workflow_causes_a_transient_error_if_a_module_cannot_be_fetched(definitions_setup):
    definitions_setup.modules.unavailable = True

    with pytest.raises(ModuleUnavailable):
        definitions_setup.submit(steps=STEPS_WITH_MODULE)

    assert len(definitions_setup.scripts.records) == 1


def test_modules_of_one_workflow_share_one_timeout(definitions_setup, monkeypatch):
    definitions_setup.modules.texts["git.x/a/b@v1"] = MODULE
    text = definitions_setup.modules.text

    def slow_text(source):
        definitions_setup.clock.advance(40)
        return text(source)

    monkeypatch.setattr(definitions_setup.modules, "text", slow_text)

    with pytest.raises(ModuleUnavailable, match="it took too long"):
        definitions_setup.submit(steps=STEPS_WITH_MODULE * 5)

    assert len(definitions_setup.modules.requested) == 2


def test_equal_workflows_have_different_ids_of_31_characters(definitions_setup):
    second_id = definitions_setup.submit(enableLogging=True)

    assert second_id != definitions_setup.script_id
    assert is_batch_location_hash(second_id)
    assert len(second_id) == 31


def test_caller_is_charged_for_the_size_of_the_stored_record(definitions_setup):
    """The script of a small workflow can be a hundred times as large as the workflow."""
    script_id = definitions_setup.submit(steps=[{"steps": [{}] * 255}] * 4)

    size = len(definitions_setup.scripts.records[script_id])
    assert size > 40_000
    assert definitions_setup.charged_sizes[-1] == size


def test_workflow_of_a_caller_above_the_rate_limit_is_not_stored(definitions_setup):
    def refuse_charge(_size):
        raise LimitExceeded("too many requests")

    with pytest.raises(LimitExceeded):
        definitions_setup.service.submit(wire_workflow(), "", refuse_charge)

    assert len(definitions_setup.scripts.records) == 1


def test_workflow_that_renders_to_a_large_script_is_not_stored(definitions_setup):
    with pytest.raises(InvalidInput, match="the script has at least"):
        definitions_setup.submit(steps=[{"run": {"command": "'" * 100_000}}] * 4)

    assert len(definitions_setup.scripts.records) == 1


@pytest.mark.parametrize(
    ("workflow", "is_stored"),
    [
        ({}, False),
        ({"enableLogging": True}, True),
        # The input needs secrets, so there is no script without secrets.
        ({"enableLogging": True, "input": {"s3": STORE}}, False),
    ],
)
def test_script_without_secrets_is_stored_only_if_the_workflow_is_logged_and_needs_no_secrets(
    definitions_setup, workflow, is_stored
):
    script_id = definitions_setup.submit(**workflow)

    record = json.loads(definitions_setup.scripts.records[script_id])
    assert ("script_without_secrets" in record) == is_stored


def test_job_gets_its_script_and_a_token_for_its_own_log(definitions_setup):
    answer = definitions_setup.service.get_sbatch(definitions_setup.request())

    assert "echo hello" in answer.script
    permit = parse_token(
        KEY,
        answer.log_write_token,
        owner=CUSTOMER,
        log_name=definitions_setup.job.id.slurm_job_name,
    )
    assert permit.log.log_identity == log_identity_of(definitions_setup.job.job_key)
    assert permit.expires_at == definitions_setup.clock.now() + MAX_TOKEN_LIFE_S
    assert answer.secrets["GRIDSTEAD_LOG_TOKEN"].decode() == answer.log_write_token
    assert answer.log_write_token not in answer.script
    assert answer.log_write_token not in repr(answer)


def test_job_without_logging_gets_no_secrets():
    definitions_setup = DefinitionsSetup()

    assert definitions_setup.service.get_sbatch(definitions_setup.request()).secrets == {}


@pytest.mark.parametrize("has_logging", [True, False])
def test_caller_that_cannot_receive_secrets_gets_a_script_without_logging(has_logging):
    definitions_setup = DefinitionsSetup(enableLogging=has_logging)

    answer = definitions_setup.service.get_sbatch(definitions_setup.request(secrets_beside=False))

    assert ("logging is off" in answer.script) == has_logging
    assert "GRIDSTEAD_LOG" not in answer.script
    assert answer.secrets == {}
    assert answer.log_write_token == ""


@pytest.mark.parametrize("has_logging", [True, False])
def test_secrets_of_a_workflow_are_not_in_its_script(has_logging):
    definitions_setup = DefinitionsSetup(enableLogging=has_logging, input={"s3": STORE})

    answer = definitions_setup.service.get_sbatch(definitions_setup.request())

    assert "hush" not in answer.script
    assert b"RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY=hush\n" in answer.secrets["GRIDSTEAD_INPUT"]
    assert ("GRIDSTEAD_LOG_TOKEN" in answer.secrets) == has_logging
    assert "hush" not in repr(answer)


def test_caller_that_cannot_receive_secrets_gets_no_script_that_needs_secrets():
    definitions_setup = DefinitionsSetup(input={"s3": STORE})

    with pytest.raises(ScriptUnavailable) as caught:
        definitions_setup.service.get_sbatch(definitions_setup.request(secrets_beside=False))

    assert "the job has secrets" in caught.value.detail


@pytest.mark.parametrize("state", sorted(HOT - {JobState.PENDING}))
def test_matched_job_that_has_not_ended_gets_its_script(definitions_setup, state):
    definitions_setup.ledger.job = replace(definitions_setup.job, state=state)

    assert definitions_setup.service.get_sbatch(definitions_setup.request()).script


@pytest.mark.parametrize("state", sorted(COLD))
def test_ended_job_gets_no_script(definitions_setup, state):
    definitions_setup.ledger.job = replace(definitions_setup.job, state=state)

    with pytest.raises(ScriptUnavailable):
        definitions_setup.service.get_sbatch(definitions_setup.request())


@pytest.mark.parametrize("job", ["unknown", "pending"])
def test_request_for_a_job_that_is_not_matched_yet_causes_a_transient_error(definitions_setup, job):
    definitions_setup.ledger.job = None
    if job == "pending":
        definitions_setup.ledger.job = replace(
            definitions_setup.job, state=JobState.PENDING, provider=""
        )

    with pytest.raises(ChainUnavailable):
        definitions_setup.service.get_sbatch(definitions_setup.request())


def test_script_of_another_job_is_unavailable(definitions_setup):
    """Script ids are public on the chain. So a job receives no script except its own."""
    other_id = definitions_setup.submit(env=[{"key": "SECRET", "value": "x"}])
    request = definitions_setup.request(batch_location_hash=other_id)

    with pytest.raises(ScriptUnavailable):
        definitions_setup.service.get_sbatch(request)


def test_script_that_is_not_stored_is_unavailable(definitions_setup):
    definitions_setup.scripts.records.clear()

    with pytest.raises(ScriptUnavailable):
        definitions_setup.service.get_sbatch(definitions_setup.request())


@pytest.mark.parametrize("error", [ConfigError("no key ab12"), ScriptDamaged("altered")])
def test_script_that_cannot_be_decrypted_is_logged_and_fails_no_job(
    definitions_setup, error, capsys
):
    def get(_):
        raise error

    definitions_setup.scripts.get = get

    with pytest.raises(JobDefinitionUnavailable) as caught:
        definitions_setup.service.get_sbatch(definitions_setup.request())

    assert str(error) not in str(caught.value)
    assert "script_unreadable" in capsys.readouterr().out


def test_request_causes_a_transient_error_if_the_chain_does_not_answer(definitions_setup):
    definitions_setup.ledger.down = True

    with pytest.raises(ChainUnavailable):
        definitions_setup.service.get_sbatch(definitions_setup.request())


def test_content_of_a_workflow_is_not_logged(capsys):
    definitions_setup = DefinitionsSetup(
        env=[{"key": "PASSWORD", "value": "very-secret"}], enableLogging=True
    )
    answer = definitions_setup.service.get_sbatch(definitions_setup.request())

    printed_text = capsys.readouterr().out
    assert "workflow_stored" in printed_text
    assert "script_given" in printed_text
    assert "very-secret" not in printed_text
    assert answer.log_write_token not in printed_text


def test_short_key_causes_a_configuration_error():
    with pytest.raises(ConfigError):
        LoggerAccess(url="x", key=b"short")
