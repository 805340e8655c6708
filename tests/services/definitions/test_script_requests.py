# SPDX-License-Identifier: Apache-2.0
"""Tests of the authorization of script requests: only a job's provider receives the script."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.definitions import Wallet, job_id, new_service
from tests.services.definitions.script_setup import CUSTOMER, KEY, STORE, DefinitionsSetup

from gridstead.domain.definitions.challenge import NONCE_LIFE_S
from gridstead.domain.definitions.job_definition import ScriptRequest
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import ChainUnavailable, NotAllowed
from gridstead.services.definitions.job_definitions import (
    CLOCK_SKEW_S,
    MAX_MATCH_READS,
    MAX_WAITING_REQUESTS,
)


@pytest.mark.parametrize(
    "changes", [{"provider": "0x" + "01" * 20}, {"customer": "0x" + "01" * 20}]
)
def test_request_with_changed_provider_or_customer_is_not_allowed(definitions_setup, changes):
    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(definitions_setup.request(**changes))


def test_provider_to_which_the_job_is_not_matched_is_not_allowed(definitions_setup):
    with pytest.raises(NotAllowed, match="not matched to this provider"):
        definitions_setup.service.get_sbatch(definitions_setup.request(Wallet()))


@pytest.mark.parametrize("signature", [b"", b"x" * 64, b"\0" * 65, b"\xff" * 65])
def test_malformed_signature_is_not_allowed(definitions_setup, signature):
    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(definitions_setup.request(signature=signature))


# bm90IG91cnM= is "not ours" in base64.
@pytest.mark.parametrize(
    "challenge", [b"", b"x", b"5", b"[]", b"{}", b'{"nonce": 5}', b'{"nonce": "bm90IG91cnM="}']
)
def test_challenge_of_another_service_is_not_allowed(definitions_setup, challenge):
    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(
            definitions_setup.request(
                challenge=challenge, signature=definitions_setup.wallet.sign(challenge)
            )
        )


def test_challenge_is_accepted_once(definitions_setup):
    request = definitions_setup.request()
    definitions_setup.service.get_sbatch(request)

    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(request)


def test_refused_request_uses_up_its_challenge(definitions_setup):
    request = definitions_setup.request()
    definitions_setup.ledger.job = replace(definitions_setup.job, customer="0x" + "01" * 20)
    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(request)
    definitions_setup.ledger.job = definitions_setup.job

    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(request)


@pytest.mark.parametrize(
    ("age_s", "is_accepted"), [(NONCE_LIFE_S, True), (NONCE_LIFE_S + 1, False)]
)
def test_challenge_is_accepted_for_ten_minutes(definitions_setup, age_s, is_accepted):
    request = definitions_setup.request()
    definitions_setup.clock.advance(age_s)

    if is_accepted:
        assert definitions_setup.service.get_sbatch(request).script
    else:
        with pytest.raises(NotAllowed):
            definitions_setup.service.get_sbatch(request)


def test_challenge_is_accepted_by_another_instance_with_the_same_key(definitions_setup):
    request = definitions_setup.request()
    other_service = new_service(
        definitions_setup.scripts, definitions_setup.ledger, definitions_setup.clock, key=KEY
    )

    assert other_service.get_sbatch(request).script
    with pytest.raises(NotAllowed, match="used"):
        definitions_setup.service.get_sbatch(request)


def test_challenge_is_accepted_once_if_the_clocks_of_instances_differ(definitions_setup):
    """An instance whose clock is ahead deletes a used challenge early.

    An instance whose clock is behind must still refuse the challenge.
    """
    request = definitions_setup.request()
    definitions_setup.clock.advance(NONCE_LIFE_S)
    definitions_setup.service.get_sbatch(request)

    definitions_setup.scripts.sweep(definitions_setup.clock.now() + CLOCK_SKEW_S)

    with pytest.raises(NotAllowed, match="used"):
        definitions_setup.service.get_sbatch(request)


def test_challenge_of_a_service_with_another_key_is_not_allowed(definitions_setup):
    request = definitions_setup.request()
    other_service = new_service(
        definitions_setup.scripts, definitions_setup.ledger, definitions_setup.clock, key=b"o" * 32
    )

    with pytest.raises(NotAllowed, match="unknown"):
        other_service.get_sbatch(request)


def test_challenge_for_another_wallet_is_not_allowed(definitions_setup):
    other_wallet = Wallet()
    challenge = definitions_setup.service.challenge(other_wallet.address)

    with pytest.raises(NotAllowed, match="another provider"):
        definitions_setup.service.get_sbatch(
            definitions_setup.request(
                challenge=challenge, signature=definitions_setup.wallet.sign(challenge)
            )
        )


def test_challenge_for_the_provider_is_accepted(definitions_setup):
    challenge = definitions_setup.service.challenge(definitions_setup.wallet.address)

    assert definitions_setup.service.get_sbatch(
        definitions_setup.request(
            challenge=challenge, signature=definitions_setup.wallet.sign(challenge)
        )
    ).script


class TestOldSupervisor:
    """Requests of an old supervisor, which treats every error as final.

    An old supervisor cannot receive secrets apart from the script (``secrets_beside=False``).
    """

    @pytest.fixture
    def during_sleep(self, definitions_setup):
        """Return an empty list to which the test appends functions.

        Instead of a sleep, the service removes the first function from the list and calls it.
        """
        functions = []

        def sleep(_seconds):
            if functions:
                functions.pop(0)()

        definitions_setup.service = new_service(
            definitions_setup.scripts,
            definitions_setup.ledger,
            definitions_setup.clock,
            key=KEY,
            sleep=sleep,
        )
        return functions

    def test_request_waits_for_a_lagging_node(self, definitions_setup, during_sleep):
        definitions_setup.ledger.job = replace(
            definitions_setup.job, state=JobState.PENDING, provider=""
        )
        during_sleep += [
            lambda: None,
            lambda: setattr(definitions_setup.ledger, "job", definitions_setup.job),
        ]

        assert definitions_setup.service.get_sbatch(
            definitions_setup.request(secrets_beside=False)
        ).script

    def test_number_of_reads_per_request_is_limited(self, definitions_setup, during_sleep):
        during_sleep += [lambda: None] * 1000
        definitions_setup.ledger.job = None

        with pytest.raises(ChainUnavailable, match="unknown"):
            definitions_setup.service.get_sbatch(definitions_setup.request(secrets_beside=False))

        # The service sleeps once per read, and each sleep removes a function.
        assert len(during_sleep) == 1000 - MAX_MATCH_READS

    def test_number_of_waiting_requests_is_limited(self, definitions_setup, during_sleep):
        definitions_setup.ledger.job = None
        outcomes = []

        def request():
            try:
                definitions_setup.service.get_sbatch(
                    definitions_setup.request(secrets_beside=False)
                )
                outcomes.append("answered")
            except ChainUnavailable:
                outcomes.append("refused")

        # Each request sleeps, and the next request starts during this sleep, so all of them wait at
        # the same time. The last request exceeds the limit. Then the job is matched.
        during_sleep += [request] * MAX_WAITING_REQUESTS
        during_sleep.append(lambda: setattr(definitions_setup.ledger, "job", definitions_setup.job))
        request()

        assert outcomes == ["refused"] + ["answered"] * MAX_WAITING_REQUESTS


def test_wrong_signature_does_not_use_up_a_challenge(definitions_setup):
    request = definitions_setup.request()
    request_with_wrong_signature = replace(request, signature=Wallet().sign(request.challenge))
    with pytest.raises(NotAllowed):
        definitions_setup.service.get_sbatch(request_with_wrong_signature)

    assert definitions_setup.service.get_sbatch(request).script


def test_challenge_has_the_members_of_the_wire_format(definitions_setup):
    assert json.loads(definitions_setup.service.challenge()).keys() == {"message", "nonce"}


ONE_SETUP = DefinitionsSetup(input={"s3": STORE})


@settings(max_examples=200)
@given(
    script=st.text(max_size=40) | st.just(ONE_SETUP.script_id),
    challenge=st.binary(max_size=300) | st.builds(ONE_SETUP.service.challenge),
    signature=st.binary(max_size=70),
    provider=st.sampled_from([ONE_SETUP.wallet.address, CUSTOMER, "", "0x"]),
    customer=st.sampled_from([CUSTOMER, "", "0x"]),
    number=st.integers(0, 2**256) | st.just(ONE_SETUP.job.id.number),
    secrets_beside=st.booleans(),
)
def test_request_without_the_providers_signature_is_refused(  # noqa: PLR0917
    script, challenge, signature, provider, customer, number, secrets_beside
):
    request = ScriptRequest(
        batch_location_hash=script,
        challenge=challenge,
        signature=signature,
        provider=provider,
        customer=customer,
        job_id=job_id(number),
        secrets_beside=secrets_beside,
    )

    with pytest.raises(NotAllowed):
        ONE_SETUP.service.get_sbatch(request)


@settings(max_examples=200)
@given(
    script=st.text(max_size=40) | st.just(ONE_SETUP.script_id),
    customer=st.sampled_from(["0x" + "01" * 20, "", "0x", CUSTOMER.upper()]),
    number=st.integers(0, 2**256),
)
def test_signed_request_for_another_job_or_customer_is_refused(script, customer, number):
    """The signature of the request is valid."""
    request = ONE_SETUP.request(
        batch_location_hash=script, customer=customer, job_id=job_id(number)
    )

    with pytest.raises((NotAllowed, ChainUnavailable)):
        ONE_SETUP.service.get_sbatch(request)
