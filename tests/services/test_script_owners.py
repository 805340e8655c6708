# SPDX-License-Identifier: Apache-2.0
"""Whose jobs open a script. A job may name any: ids are public on the chain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.definitions import (
    Wallet,
    matched_job,
    new_service,
)
from tests.services.script_setup import CUSTOMER, KEY

from gridstead.errors import (
    ChainUnavailable,
    InvalidInput,
    ScriptUnavailable,
)


class TestOwner:
    def test_job_of_another_customer_does_not_open_a_script_that_was_named_before(
        self, definitions_setup
    ):
        """A provider asks, as a second customer, for a job with the id of somebody's script, and
        gets it matched.
        """
        definitions_setup.service.get_sbatch(definitions_setup.request())
        thief = Wallet()
        definitions_setup.ledger.job = replace(
            definitions_setup.job,
            id=replace(definitions_setup.job.id, number=6),
            customer=thief.address,
            provider=thief.address,
        )

        with pytest.raises(ScriptUnavailable, match="another customer"):
            definitions_setup.service.get_sbatch(
                definitions_setup.request(thief, customer=thief.address, job_number=6)
            )

    def test_first_job_on_the_chain_counts_even_if_nobody_asked_for_its_script_yet(
        self, definitions_setup
    ):
        thief = Wallet()
        definitions_setup.service = new_service(
            definitions_setup.scripts, definitions_setup.ledger, definitions_setup.clock, key=KEY
        )
        first, second = (
            definitions_setup.job,
            replace(
                definitions_setup.job,
                id=replace(definitions_setup.job.id, number=6),
                customer=thief.address,
            ),
        )
        definitions_setup.ledger.jobs = lambda numbers, *, at_block: {
            5: first,
            6: replace(second, provider=thief.address),
        }

        with pytest.raises(ScriptUnavailable, match="another customer"):
            definitions_setup.service.get_sbatch(
                definitions_setup.request(thief, customer=thief.address, job_number=6)
            )
        assert definitions_setup.service.get_sbatch(definitions_setup.request()).script

    def test_customer_named_at_the_submission_is_the_owner_whoever_comes_first(
        self, definitions_setup
    ):
        script_id = definitions_setup.submit("0x" + "C0" * 20)
        thief = Wallet()
        definitions_setup.ledger.job = matched_job(thief.address, thief.address, script_id)
        with pytest.raises(ScriptUnavailable, match="another customer"):
            definitions_setup.service.get_sbatch(
                definitions_setup.request(
                    thief, customer=thief.address, batch_location_hash=script_id
                )
            )
        definitions_setup.ledger.job = matched_job(
            CUSTOMER, definitions_setup.wallet.address, script_id
        )

        assert definitions_setup.service.get_sbatch(
            definitions_setup.request(batch_location_hash=script_id)
        ).script

    def test_second_job_of_the_owner_opens_it_too(self, definitions_setup):
        definitions_setup.service.get_sbatch(definitions_setup.request())
        definitions_setup.ledger.job = replace(
            definitions_setup.job, id=replace(definitions_setup.job.id, number=6)
        )

        assert definitions_setup.service.get_sbatch(definitions_setup.request(job_number=6)).script

    def test_job_whose_event_is_not_told_yet_is_asked_for_again(self, definitions_setup):
        definitions_setup.ledger._events.clear()

        with pytest.raises(ChainUnavailable, match="whose"):
            definitions_setup.service.get_sbatch(definitions_setup.request())

    def test_owner_that_is_no_address_is_the_callers_mistake(self, definitions_setup):
        with pytest.raises(InvalidInput):
            definitions_setup.submit("0x1")
