# SPDX-License-Identifier: Apache-2.0
"""Tests of the owners of scripts. A script id on the chain is public, so any job can name it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.definitions import Wallet, job_id, matched_job, new_service
from tests.services.definitions.script_setup import CUSTOMER, KEY

from gridstead.errors import ChainUnavailable, InvalidInput, ScriptUnavailable


def test_job_of_another_customer_does_not_get_the_script(definitions_setup):
    """An outsider is the customer and the provider of a job that names the script's id."""
    definitions_setup.get_sbatch()
    outsider = Wallet()
    definitions_setup.ledger.job = replace(
        definitions_setup.job,
        id=replace(definitions_setup.job.id, number=6),
        customer=outsider.address,
        provider=outsider.address,
    )

    with pytest.raises(ScriptUnavailable, match="another customer"):
        definitions_setup.get_sbatch(outsider, customer=outsider.address, job_id=job_id(6))


def test_script_belongs_to_the_customer_of_its_first_job_on_the_chain(definitions_setup):
    outsider = Wallet()
    definitions_setup.service = new_service(
        definitions_setup.scripts, definitions_setup.ledger, definitions_setup.clock, key=KEY
    )
    first_job = definitions_setup.job
    second_job = replace(
        first_job,
        id=replace(first_job.id, number=6),
        customer=outsider.address,
        provider=outsider.address,
    )
    definitions_setup.ledger.jobs = lambda job_ids, *, at_block: {
        job_id(5): first_job,
        job_id(6): second_job,
    }

    with pytest.raises(ScriptUnavailable, match="another customer"):
        definitions_setup.get_sbatch(outsider, customer=outsider.address, job_id=job_id(6))
    assert definitions_setup.get_sbatch().script


def test_customer_given_at_the_submission_is_the_owner(definitions_setup):
    script_id = definitions_setup.submit("0x" + "C0" * 20)
    outsider = Wallet()
    definitions_setup.ledger.job = matched_job(outsider.address, outsider.address, script_id)
    with pytest.raises(ScriptUnavailable, match="another customer"):
        definitions_setup.get_sbatch(
            outsider, customer=outsider.address, batch_location_hash=script_id
        )
    definitions_setup.ledger.job = matched_job(
        CUSTOMER, definitions_setup.wallet.address, script_id
    )

    assert definitions_setup.get_sbatch(batch_location_hash=script_id).script


def test_second_job_of_the_owner_gets_the_script_too(definitions_setup):
    definitions_setup.get_sbatch()
    definitions_setup.ledger.job = replace(
        definitions_setup.job, id=replace(definitions_setup.job.id, number=6)
    )

    assert definitions_setup.get_sbatch(job_id=job_id(6)).script


def test_script_whose_owner_is_not_on_the_chain_yet_is_a_transient_error(definitions_setup):
    definitions_setup.ledger._events.clear()

    with pytest.raises(ChainUnavailable, match="owner"):
        definitions_setup.get_sbatch()


def test_malformed_owner_is_invalid_input(definitions_setup):
    with pytest.raises(InvalidInput):
        definitions_setup.submit("0x1")
