# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service: to whom a script goes, and to whom it does not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.definitions import (
    MemoryModules,
    MemoryScripts,
    OneJobLedger,
    Wallet,
    matched_job,
    new_service,
    wire_workflow,
)
from tests.fakes.store import FakeClock

from gridstead.domain.challenge import NONCE_LIFE_S
from gridstead.domain.ids import is_batch_location_hash
from gridstead.domain.job_definition import ScriptRequest
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
    NotAllowed,
    ScriptDamaged,
    ScriptUnavailable,
)
from gridstead.services.job_definitions import LoggerAccess

KEY = b"k" * 32
CUSTOMER = "0x" + "c0" * 20


class Scene:
    """A service, a provider, and a job of its own."""

    def __init__(self, **workflow) -> None:
        self.scripts = MemoryScripts()
        self.ledger = OneJobLedger()
        self.clock = FakeClock()
        self.wallet = Wallet()
        self.modules = MemoryModules()
        self.service = new_service(self.scripts, self.ledger, self.clock, key=KEY, modules=self.modules)
        self.script_id = self.service.submit(wire_workflow(**workflow))
        self.job = matched_job(CUSTOMER, self.wallet.address, self.script_id)
        self.ledger.job = self.job

    def request(self, wallet=None, **changes):
        """A request as it should be, but for the changes."""
        wallet = wallet or self.wallet
        challenge = self.service.challenge()
        request = ScriptRequest(
            batch_location_hash=self.script_id,
            challenge=challenge,
            signature=wallet.sign(challenge),
            provider=wallet.address,
            customer=CUSTOMER,
            job_number=self.job.id.number,
            secrets_beside=True,
        )
        return replace(request, **changes)


@pytest.fixture
def scene():
    return Scene(enableLogging=True)


def test_broken_workflow_is_not_stored(scene):
    with pytest.raises(InvalidWorkflow):
        scene.service.submit(wire_workflow(steps=[]))

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

    script_id = scene.service.submit(wire_workflow(steps=USE))

    assert "hello from a module" in scene.scripts.records[script_id]


def test_module_that_cannot_be_used_is_the_users_error_and_nothing_is_stored(scene):
    with pytest.raises(InvalidWorkflow) as caught:
        scene.service.submit(wire_workflow(steps=USE))

    assert caught.value.problems[0].path == "steps[0].use.source"
    assert len(scene.scripts.records) == 1


def test_module_that_does_not_come_is_not_the_users_error_and_nothing_is_stored(scene):
    scene.modules.unavailable = True

    with pytest.raises(ModuleUnavailable):
        scene.service.submit(wire_workflow(steps=USE))

    assert len(scene.scripts.records) == 1


def test_modules_of_one_workflow_do_not_take_very_long(scene, monkeypatch):
    scene.modules.texts["git.x/a/b@v1"] = MODULE
    fetch = scene.modules.text

    def slow(source):
        scene.clock.advance(40)
        return fetch(source)

    monkeypatch.setattr(scene.modules, "text", slow)

    with pytest.raises(ModuleUnavailable, match="it took too long"):
        scene.service.submit(wire_workflow(steps=USE * 5))

    assert len(scene.modules.asked) == 2


def test_id_is_short_safe_and_tells_nothing_of_equal_scripts(scene):
    again = scene.service.submit(wire_workflow(enableLogging=True))

    assert again != scene.script_id
    assert is_batch_location_hash(again)
    assert len(again) == 31


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


def test_caller_without_secrets_gets_a_script_without_logging(scene):
    answer = scene.service.get_sbatch(scene.request(secrets_beside=False))

    assert "logging is off" in answer.script
    assert (answer.secrets, answer.log_write_token) == ({}, "")


STORE = {
    "region": "eu", "bucketUrl": "s3://bucket", "path": "/x", "accessKeyId": "AKIA", "secretAccessKey": "hush",
    "endpointUrl": "https://store.example",
}  # fmt: skip


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
    other = scene.service.submit(wire_workflow(env=[{"key": "SECRET", "value": "x"}]))

    with pytest.raises(ScriptUnavailable):
        scene.service.get_sbatch(scene.request(batch_location_hash=other))


def test_script_that_is_not_stored_is_unavailable(scene):
    scene.scripts.records.clear()

    with pytest.raises(ScriptUnavailable):
        scene.service.get_sbatch(scene.request())


@pytest.mark.parametrize("changes", [{"provider": "0x" + "01" * 20}, {"customer": "0x" + "01" * 20}])
def test_other_provider_or_customer_is_not_allowed(scene, changes):
    with pytest.raises(NotAllowed):
        scene.service.get_sbatch(scene.request(**changes))


def test_provider_without_the_job_is_not_allowed(scene):
    with pytest.raises(NotAllowed, match="not matched to this provider"):
        scene.service.get_sbatch(scene.request(Wallet()))


@pytest.mark.parametrize("signature", [b"", b"x" * 64, b"\0" * 65, b"\xff" * 65])
def test_malformed_signature_is_not_allowed(scene, signature):
    with pytest.raises(NotAllowed):
        scene.service.get_sbatch(scene.request(signature=signature))


@pytest.mark.parametrize("challenge", [b"", b"x", b"5", b"[]", b"{}", b'{"nonce": 5}', b'{"nonce": "bm90IG91cnM="}'])
def test_challenge_of_others_is_not_allowed(scene, challenge):
    with pytest.raises(NotAllowed):
        scene.service.get_sbatch(scene.request(challenge=challenge, signature=scene.wallet.sign(challenge)))


def test_challenge_is_good_once(scene):
    request = scene.request()
    scene.service.get_sbatch(request)

    with pytest.raises(NotAllowed):
        scene.service.get_sbatch(request)


def test_challenge_is_used_up_by_a_refusal_too(scene):
    request = scene.request()
    scene.ledger.job = replace(scene.job, customer="0x" + "01" * 20)
    with pytest.raises(NotAllowed):
        scene.service.get_sbatch(request)
    scene.ledger.job = scene.job

    with pytest.raises(NotAllowed):
        scene.service.get_sbatch(request)


@pytest.mark.parametrize(("age_s", "is_good"), [(NONCE_LIFE_S, True), (NONCE_LIFE_S + 1, False)])
def test_challenge_is_good_for_ten_minutes(scene, age_s, is_good):
    request = scene.request()
    scene.clock.advance(age_s)

    if is_good:
        assert scene.service.get_sbatch(request).script
    else:
        with pytest.raises(NotAllowed):
            scene.service.get_sbatch(request)


def test_challenge_outlives_a_restart_and_is_good_in_every_instance(scene):
    request = scene.request()
    other = new_service(scene.scripts, scene.ledger, scene.clock, key=KEY)

    assert other.get_sbatch(request).script
    with pytest.raises(NotAllowed, match="used"):
        scene.service.get_sbatch(request)


def test_challenge_of_a_service_with_another_key_is_not_allowed(scene):
    request = scene.request()
    other = new_service(scene.scripts, scene.ledger, scene.clock, key=b"o" * 32)

    with pytest.raises(NotAllowed, match="not one of ours"):
        other.get_sbatch(request)


def test_challenge_for_one_wallet_is_not_anothers(scene):
    stranger = Wallet()
    challenge = scene.service.challenge(stranger.address)

    with pytest.raises(NotAllowed, match="not one of ours for this provider"):
        scene.service.get_sbatch(scene.request(challenge=challenge, signature=scene.wallet.sign(challenge)))


def test_challenge_for_the_provider_is_good(scene):
    challenge = scene.service.challenge(scene.wallet.address)

    assert scene.service.get_sbatch(scene.request(challenge=challenge, signature=scene.wallet.sign(challenge))).script


def test_wrong_signature_does_not_use_up_a_challenge(scene):
    request = scene.request()
    with pytest.raises(NotAllowed):
        scene.service.get_sbatch(replace(request, signature=Wallet().sign(request.challenge)))

    assert scene.service.get_sbatch(request).script


class TestOwner:
    """A job may name any script: ids are public on the chain."""

    def test_job_of_another_customer_does_not_open_a_script_that_was_named_before(self, scene):
        """A provider asks, as a second customer, for a job with the id of somebody's script, and gets it matched."""
        scene.service.get_sbatch(scene.request())
        thief = Wallet()
        scene.ledger.job = replace(
            scene.job, id=replace(scene.job.id, number=6), customer=thief.address, provider=thief.address
        )

        with pytest.raises(ScriptUnavailable, match="another customer"):
            scene.service.get_sbatch(scene.request(thief, customer=thief.address, job_number=6))

    def test_first_job_on_the_chain_counts_even_if_nobody_asked_for_its_script_yet(self, scene):
        thief = Wallet()
        scene.service = new_service(scene.scripts, scene.ledger, scene.clock, key=KEY)
        first, second = scene.job, replace(scene.job, id=replace(scene.job.id, number=6), customer=thief.address)
        scene.ledger.jobs = lambda numbers, *, at: {5: first, 6: replace(second, provider=thief.address)}

        with pytest.raises(ScriptUnavailable, match="another customer"):
            scene.service.get_sbatch(scene.request(thief, customer=thief.address, job_number=6))
        assert scene.service.get_sbatch(scene.request()).script

    def test_customer_named_at_the_submission_is_the_owner_whoever_comes_first(self, scene):
        script_id = scene.service.submit(wire_workflow(), "0x" + "C0" * 20)
        thief = Wallet()
        scene.ledger.job = matched_job(thief.address, thief.address, script_id)
        with pytest.raises(ScriptUnavailable, match="another customer"):
            scene.service.get_sbatch(scene.request(thief, customer=thief.address, batch_location_hash=script_id))
        scene.ledger.job = matched_job(CUSTOMER, scene.wallet.address, script_id)

        assert scene.service.get_sbatch(scene.request(batch_location_hash=script_id)).script

    def test_second_job_of_the_owner_opens_it_too(self, scene):
        scene.service.get_sbatch(scene.request())
        scene.ledger.job = replace(scene.job, id=replace(scene.job.id, number=6))

        assert scene.service.get_sbatch(scene.request(job_number=6)).script

    def test_job_whose_event_is_not_told_yet_is_asked_for_again(self, scene):
        scene.ledger._events.clear()

        with pytest.raises(ChainUnavailable, match="whose"):
            scene.service.get_sbatch(scene.request())

    def test_owner_that_is_no_address_is_the_callers_mistake(self, scene):
        with pytest.raises(InvalidInput):
            scene.service.submit(wire_workflow(), "0x1")


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


def test_challenge_has_the_wires_members(scene):
    assert json.loads(scene.service.challenge()).keys() == {"message", "nonce"}


def test_short_key_is_the_operators():
    with pytest.raises(ConfigError):
        LoggerAccess(url="x", key=b"short")


ONE_SCENE = Scene(input={"s3": STORE})


@settings(max_examples=200, deadline=None)
@given(
    script=st.text(max_size=40) | st.just(ONE_SCENE.script_id),
    challenge=st.binary(max_size=300) | st.builds(ONE_SCENE.service.challenge),
    signature=st.binary(max_size=70),
    provider=st.sampled_from([ONE_SCENE.wallet.address, CUSTOMER, "", "0x"]),
    customer=st.sampled_from([CUSTOMER, "", "0x"]),
    number=st.integers(0, 2**256) | st.just(ONE_SCENE.job.id.number),
    beside=st.booleans(),
)
def test_no_request_without_the_providers_signature_is_answered(  # noqa: PLR0917
    script, challenge, signature, provider, customer, number, beside
):
    request = ScriptRequest(
        batch_location_hash=script,
        challenge=challenge,
        signature=signature,
        provider=provider,
        customer=customer,
        job_number=number,
        secrets_beside=beside,
    )

    with pytest.raises(NotAllowed):
        ONE_SCENE.service.get_sbatch(request)


@settings(max_examples=200, deadline=None)
@given(
    script=st.text(max_size=40) | st.just(ONE_SCENE.script_id),
    customer=st.sampled_from(["0x" + "01" * 20, "", "0x", CUSTOMER.upper()]),
    number=st.integers(0, 2**256),
)
def test_no_signed_request_for_anything_else_is_answered(script, customer, number):
    """The signature is good; the job is not the one, or not of this customer."""
    request = ONE_SCENE.request(batch_location_hash=script, customer=customer, job_number=number)

    with pytest.raises((NotAllowed, ChainUnavailable)):
        ONE_SCENE.service.get_sbatch(request)
