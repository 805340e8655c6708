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
from tests.services.scene import CUSTOMER, KEY

from gridstead.errors import (
    ChainUnavailable,
    InvalidInput,
    ScriptUnavailable,
)


class TestOwner:
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
        script_id = scene.submit("0x" + "C0" * 20)
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
            scene.submit("0x1")
