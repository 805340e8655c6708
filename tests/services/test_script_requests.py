# SPDX-License-Identifier: Apache-2.0
"""Who gets a script of the Job Definition service: the provider that proves to be the one that has
the job.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.definitions import (
    Wallet,
    new_service,
)
from tests.services.script_setup import CUSTOMER, KEY, STORE, DefinitionsSetup

from gridstead.domain.challenge import NONCE_LIFE_S
from gridstead.domain.job_definition import ScriptRequest
from gridstead.domain.lifecycle import JobState
from gridstead.errors import (
    ChainUnavailable,
    NotAllowed,
)
from gridstead.services.job_definitions import CLOCKS_DIFFER_S, LOOKS, MAX_WAITING


@pytest.mark.parametrize(
    "changes", [{"provider": "0x" + "01" * 20}, {"customer": "0x" + "01" * 20}]
)
def test_other_provider_or_customer_is_not_allowed(definitions_setup, changes):
    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(definitions_setup.request(**changes))


def test_provider_without_the_job_is_not_allowed(definitions_setup):
    with pytest.raises(NotAllowed, match="not matched to this provider"):
        definitions_setup.service.get_sbatch(definitions_setup.request(Wallet()))


@pytest.mark.parametrize("signature", [b"", b"x" * 64, b"\0" * 65, b"\xff" * 65])
def test_malformed_signature_is_not_allowed(definitions_setup, signature):
    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(definitions_setup.request(signature=signature))


@pytest.mark.parametrize(
    "challenge", [b"", b"x", b"5", b"[]", b"{}", b'{"nonce": 5}', b'{"nonce": "bm90IG91cnM="}']
)
def test_challenge_of_others_is_not_allowed(definitions_setup, challenge):
    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(
            definitions_setup.request(
                challenge=challenge, signature=definitions_setup.wallet.sign(challenge)
            )
        )


def test_challenge_is_good_once(definitions_setup):
    request = definitions_setup.request()
    definitions_setup.service.get_sbatch(request)

    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(request)


def test_challenge_is_used_up_by_a_refusal_too(definitions_setup):
    request = definitions_setup.request()
    definitions_setup.ledger.job = replace(definitions_setup.job, customer="0x" + "01" * 20)
    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(request)
    definitions_setup.ledger.job = definitions_setup.job

    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(request)


@pytest.mark.parametrize(("age_s", "is_good"), [(NONCE_LIFE_S, True), (NONCE_LIFE_S + 1, False)])
def test_challenge_is_good_for_ten_minutes(definitions_setup, age_s, is_good):
    request = definitions_setup.request()
    definitions_setup.clock.advance(age_s)

    if is_good:
        assert definitions_setup.service.get_sbatch(request).script
    else:
        with pytest.raises(NotAllowed):
            definitions_setup.service.get_sbatch(request)


def test_challenge_outlives_a_restart_and_is_good_in_every_instance(definitions_setup):
    request = definitions_setup.request()
    other = new_service(
        definitions_setup.scripts, definitions_setup.ledger, definitions_setup.clock, key=KEY
    )

    assert other.get_sbatch(request).script
    with pytest.raises(NotAllowed, match="used"):
        definitions_setup.service.get_sbatch(request)


def test_challenge_is_good_once_where_the_clocks_of_instances_differ(definitions_setup):
    """The one that is ahead forgets used challenges while the one behind still takes them."""
    request = definitions_setup.request()
    definitions_setup.clock.advance(NONCE_LIFE_S)
    definitions_setup.service.get_sbatch(request)

    definitions_setup.scripts.sweep(definitions_setup.clock.now() + CLOCKS_DIFFER_S)

    with pytest.raises(NotAllowed, match="used"):
        definitions_setup.service.get_sbatch(request)


def test_challenge_of_a_service_with_another_key_is_not_allowed(definitions_setup):
    request = definitions_setup.request()
    other = new_service(
        definitions_setup.scripts, definitions_setup.ledger, definitions_setup.clock, key=b"o" * 32
    )

    with pytest.raises(NotAllowed, match="not one of ours"):
        other.get_sbatch(request)


def test_challenge_for_one_wallet_is_not_anothers(definitions_setup):
    stranger = Wallet()
    challenge = definitions_setup.service.challenge(stranger.address)

    with pytest.raises(NotAllowed, match="not one of ours for this provider"):
        definitions_setup.service.get_sbatch(
            definitions_setup.request(
                challenge=challenge, signature=definitions_setup.wallet.sign(challenge)
            )
        )


def test_challenge_for_the_provider_is_good(definitions_setup):
    challenge = definitions_setup.service.challenge(definitions_setup.wallet.address)

    assert definitions_setup.service.get_sbatch(
        definitions_setup.request(
            challenge=challenge, signature=definitions_setup.wallet.sign(challenge)
        )
    ).script


class TestOldSupervisor:
    """It takes every error for final."""

    @pytest.fixture
    def paused(self, definitions_setup):
        """What is done while the service pauses."""
        done = []
        definitions_setup.service = new_service(
            definitions_setup.scripts,
            definitions_setup.ledger,
            definitions_setup.clock,
            key=KEY,
            pause=lambda _: done.pop(0)() if done else None,
        )
        return done

    def test_it_waits_for_a_node_of_ours_that_lags(self, definitions_setup, paused):
        definitions_setup.ledger.job = replace(
            definitions_setup.job, state=JobState.PENDING, provider=""
        )
        paused += [
            lambda: None,
            lambda: setattr(definitions_setup.ledger, "job", definitions_setup.job),
        ]

        assert definitions_setup.service.get_sbatch(
            definitions_setup.request(secrets_beside=False)
        ).script

    def test_it_does_not_wait_for_ever(self, definitions_setup, paused):
        paused += [lambda: None] * 1000
        definitions_setup.ledger.job = None

        with pytest.raises(ChainUnavailable, match="unknown"):
            definitions_setup.service.get_sbatch(definitions_setup.request(secrets_beside=False))

        assert len(paused) == 1000 - LOOKS

    def test_few_wait_so_that_others_are_answered(self, definitions_setup, paused):
        matched, definitions_setup.ledger.job = definitions_setup.job, None
        outcomes = []

        def ask():
            try:
                definitions_setup.service.get_sbatch(
                    definitions_setup.request(secrets_beside=False)
                )
                outcomes.append("given")
            except ChainUnavailable:
                outcomes.append("refused")

        paused += [ask] * MAX_WAITING + [lambda: setattr(definitions_setup.ledger, "job", matched)]
        ask()

        assert outcomes == ["refused"] + ["given"] * MAX_WAITING


def test_wrong_signature_does_not_use_up_a_challenge(definitions_setup):
    request = definitions_setup.request()
    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(
            replace(request, signature=Wallet().sign(request.challenge))
        )

    assert definitions_setup.service.get_sbatch(request).script


def test_challenge_has_the_wires_members(definitions_setup):
    assert json.loads(definitions_setup.service.challenge()).keys() == {"message", "nonce"}


ONE_SCENE = DefinitionsSetup(input={"s3": STORE})


@settings(max_examples=200)
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


@settings(max_examples=200)
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
