# SPDX-License-Identifier: Apache-2.0
"""Tests of the Job Definition service as a process, with a real chain and PostgreSQL."""

from __future__ import annotations

import os
import random
import ssl
import threading
import time

import grpc
import httpx
import pytest
from tests.adapters.chain.grids import join_real_grid
from tests.devnet import COIN, wallet
from tests.fakes.definitions import wire_workflow
from tests.fakes.definitions_process import KEY, DefinitionsProcess
from tests.fakes.ledger import SMALL

from gridstead.adapters.chain.customer import Customer, JobRequest
from gridstead.adapters.channel import open_channel
from gridstead.adapters.definitions.job_definitions import (
    JobDefinitionClient,
    ProviderWallet,
    submit_workflow,
)
from gridstead.adapters.definitions.script_seal import ScriptSeal
from gridstead.adapters.definitions.scripts import Scripts
from gridstead.adapters.store.database import Database
from gridstead.errors import ConfigError, JobDefinitionUnavailable, ScriptUnavailable
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest, GetSBatchRequest
from gridstead.proto.sbatchapi_pb2_grpc import AuthAPIStub, SBatchAPIStub

KILL_COUNT = int(os.environ.get("GRIDSTEAD_DEFINITION_KILLS", "4"))
SUBMITTER_COUNT = 3
SECRET = "the-customers-very-own-secret"
STORE = {
    "region": "eu",
    "bucketUrl": "s3://bucket",
    "path": "/x",
    "accessKeyId": "AKIA",
    "secretAccessKey": SECRET,
    "endpointUrl": "https://store.example",
}


@pytest.fixture
def grid(chain):
    """The grid. The provider has joined the grid."""
    return join_real_grid(chain)


@pytest.fixture
def start_instance(chain, tmp_path):
    """Return a function that starts an instance of the service in a separate folder."""
    started_processes = []

    def start(name="one", **settings):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        process = DefinitionsProcess(folder, chain, **settings)
        process.start()
        started_processes.append(process)
        process.wait()
        return process

    yield start
    for process in started_processes:
        process.kill()


@pytest.fixture
def fetch(grid):
    """Return a function that fetches a job's script as a provider."""

    def fetch(process, number, provider):
        job = grid.job(number)
        signer = ProviderWallet(address=provider.address, sign=provider.sign_text)
        client = JobDefinitionClient(process.peer, signer)
        try:
            return client.fetch(job)
        finally:
            client.close()

    return fetch


def submit(process, **workflow):
    """Submit a workflow, and return the script's id."""
    return submit_workflow(process.url, wire_workflow(**workflow), ca=process.authority.certificate)


def test_two_instances_share_one_database(chain, grid, start_instance, fetch, postgresql_url):
    first_instance = start_instance("one", state_url=postgresql_url)
    second_instance = start_instance("two", state_url=postgresql_url)
    script_id = submit(first_instance, input={"s3": STORE})
    number = grid.request(script_id)
    grid.match(number)

    script = fetch(second_instance, number, chain.provider)

    assert "echo hello" in script.text
    assert SECRET in script.environment["GRIDSTEAD_INPUT"]
    assert [first_instance.stop(), second_instance.stop()] == [0, 0]
    for process in (first_instance, second_instance):
        assert SECRET not in process.output.read_text()
        assert "Traceback" not in process.output.read_text()


def test_challenge_is_valid_once_for_all_instances(chain, grid, start_instance, postgresql_url):
    first_instance = start_instance("one", state_url=postgresql_url)
    second_instance = start_instance("two", state_url=postgresql_url)
    number = grid.request(submit(first_instance))
    grid.match(number)
    job = grid.job(number)
    provider = chain.provider

    with open_channel(first_instance.peer) as first, open_channel(second_instance.peer) as second:
        challenge = AuthAPIStub(first).Challenge(ChallengeRequest()).challenge
        request = GetSBatchRequest(
            batch_location_hash=job.batch_location_hash,
            challenge=challenge,
            signed_challenge=provider.sign_text(challenge),
            provider_address=bytes.fromhex(provider.address[2:]),
            customer_address=bytes.fromhex(job.customer[2:]),
            job_id=job.id.slurm_job_name,
        )
        assert SBatchAPIStub(second).GetSBatch(request).sbatch
        with pytest.raises(grpc.RpcError) as caught:
            SBatchAPIStub(first).GetSBatch(request)

    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_script_is_not_given_for_a_job_of_another_customer(chain, grid, start_instance, fetch):
    """A thief requests a job with the script id of another customer."""
    process = start_instance()
    script_id = submit(process, input={"s3": STORE})
    number = grid.request(script_id)
    thief = funded_customer(chain, wallet(66))
    request = JobRequest(resources=SMALL, batch_location_hash=script_id, escrow=200 * COIN)
    number_of_thief = thief.request_job(request)
    grid.match(number_of_thief)

    with pytest.raises(ScriptUnavailable, match="another customer"):
        fetch(process, number_of_thief, chain.provider)
    grid.match(number)

    assert fetch(process, number, chain.provider).text


def funded_customer(chain, customer_wallet):
    """Return a customer who has coins and credits."""
    chain.anvil.fund(customer_wallet.address)
    chain.as_admin.transfer(customer_wallet.address, 1000 * COIN)
    customer = Customer(chain.node, chain.contracts, customer_wallet)
    customer.allow(1000 * COIN)
    return customer


def test_wrong_storage_key_is_a_config_error(start_instance, chain, tmp_path):
    process = start_instance()
    submit(process)
    process.stop()
    process.key_file.write_text("another-key-of-the-tests-that-seals-nothing")
    process.start()

    assert process.process.wait(30) == ConfigError.exit_code
    assert "not in storage_key_file" in process.output.read_text()
    assert "Add the key again" in process.output.read_text()


def test_health_and_metrics_are_served(chain, grid, start_instance, fetch):
    process = start_instance(limits={"requests_per_s": 5})
    number = grid.request(submit(process))
    grid.match(number)
    fetch(process, number, chain.provider)
    context = ssl.create_default_context(cafile=process.authority.certificate)

    with httpx.Client(
        verify=context, trust_env=False, base_url=process.url.removesuffix("/graphql")
    ) as http:
        ready, metrics = http.get("/ready"), http.get("/metrics").text
        codes = {http.post("/graphql", content=b"{").status_code for _ in range(20)}

    assert ready.status_code == 200
    assert 'gridstead_calls_total{call="get_sbatch",outcome="ok"} 1.0' in metrics
    assert "gridstead_scripts 1.0\n" in metrics
    # 400: invalid JSON. 429: more requests than ``requests_per_s``.
    assert codes == {400, 429}


def test_no_acknowledged_script_is_lost_after_kill_9(chain, start_instance, tmp_path):
    rng = random.Random(4)
    process = start_instance(limits={"upload_mib_per_hour": 100_000})
    submitters = Submitters(process)
    submitters.start()
    try:
        for _ in range(KILL_COUNT):
            process.wait()
            submitters.wait_for_an_acknowledgement()
            time.sleep(rng.uniform(0, 0.5))
            process.kill()
            process.start()
        process.wait()
    finally:
        submitters.stop()
    process.kill()

    database = Database(process.state_url)
    scripts = Scripts(database, ScriptSeal((KEY.encode(),)), chain.contracts.job_id)
    acknowledged_ids = submitters.acknowledged
    lost_ids = [script_id for script_id in acknowledged_ids if scripts.get(script_id) is None]
    database.close()
    assert len(acknowledged_ids) >= KILL_COUNT
    assert lost_ids == []


class Submitters:
    """Threads that submit workflows in a loop.

    Attributes:
        acknowledged: The ids of the scripts that the service has acknowledged.
    """

    def __init__(self, process):
        self.acknowledged = []
        self._process = process
        self._acknowledgement, self._is_stopping = threading.Event(), threading.Event()
        self._threads = []

    def start(self):
        for _ in range(SUBMITTER_COUNT):
            thread = threading.Thread(target=self._submit_until_stopped)
            thread.start()
            self._threads.append(thread)

    def wait_for_an_acknowledgement(self):
        self._acknowledgement.clear()
        assert self._acknowledgement.wait(60)

    def stop(self):
        self._is_stopping.set()
        for thread in self._threads:
            thread.join()

    def _submit_until_stopped(self):
        while not self._is_stopping.is_set():
            try:
                self.acknowledged.append(submit(self._process))
                self._acknowledgement.set()
            except JobDefinitionUnavailable:
                time.sleep(0.05)
