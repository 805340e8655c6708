# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service as a process, with a real chain, PostgreSQL and wallets."""

from __future__ import annotations

import os
import random
import ssl
import threading
import time

import grpc
import httpx
import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.devnet import COIN, wallet
from tests.fakes.definitions import wire_workflow
from tests.fakes.definitions_process import KEY, DefinitionsProcess

from gridstead.adapters.chain.customer import Customer
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

ROUNDS = int(os.environ.get("GRIDSTEAD_DEFINITION_KILLS", "4"))
SUBMITTERS = 3
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
    grid = RealGrid(chain)
    grid.register()
    grid.approve()
    return grid


@pytest.fixture
def started(chain, tmp_path):
    """Return a function that starts an instance in a separate folder."""
    running = []

    def start(name="one", **settings):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        process = DefinitionsProcess(folder, chain, **settings)
        process.start()
        running.append(process)
        process.wait()
        return process

    yield start
    for process in running:
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
    return submit_workflow(process.url, wire_workflow(**workflow), ca=process.authority.certificate)


def test_two_instances_share_one_database(chain, grid, started, fetch, postgresql_url):
    first_instance = started("one", state_url=postgresql_url)
    second_instance = started("two", state_url=postgresql_url)
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


def test_challenge_is_valid_once_for_all_instances(chain, grid, started, postgresql_url):
    first_instance = started("one", state_url=postgresql_url)
    second_instance = started("two", state_url=postgresql_url)
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
            job_id=job.id.slurm_name,
        )
        assert SBatchAPIStub(second).GetSBatch(request).sbatch
        with pytest.raises(grpc.RpcError) as caught:
            SBatchAPIStub(first).GetSBatch(request)

    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_provider_cannot_read_a_script_with_its_own_job(chain, grid, started, fetch):
    """As another customer, it requests a job with the script id on the chain, and runs that job."""
    process = started()
    script_id = submit(process, input={"s3": STORE})
    first = grid.request(script_id)
    thief = wallet(66)
    chain.anvil.fund(thief.address)
    chain.as_admin.transfer(thief.address, 1000 * COIN)
    stolen = RealGrid(chain)
    stolen.devnet = _As(chain, Customer(chain.node, chain.contracts, thief))
    stolen.devnet.as_customer.allow(1000 * COIN)
    second = stolen.request(script_id)
    grid.match(second)

    with pytest.raises(ScriptUnavailable, match="another customer"):
        fetch(process, second, chain.provider)
    grid.match(first)

    assert fetch(process, first, chain.provider).text


class _As:
    """A chain with another customer."""

    def __init__(self, devnet, customer):
        self._devnet = devnet
        self.as_customer = customer

    def __getattr__(self, name):
        return getattr(self._devnet, name)


def test_wrong_storage_key_is_a_config_error(started, chain, tmp_path):
    process = started()
    submit(process)
    process.stop()
    process.key_file.write_text("another-key-of-the-tests-that-seals-nothing")
    process.start()

    assert process.process.wait(30) == ConfigError.exit_code
    assert "not in storage_key_file" in process.output.read_text()
    assert "Add the key again" in process.output.read_text()


def test_health_and_metrics_are_served(chain, grid, started, fetch):
    process = started(limits={"requests_per_s": 5})
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
    assert codes == {400, 429}


def test_no_acknowledged_script_is_lost_to_kill_9(chain, started, tmp_path):
    rng = random.Random(4)
    process = started(limits={"upload_mib_per_hour": 100_000})
    acknowledged, arrived, ending = [], threading.Event(), threading.Event()

    def submit_until_the_end():
        while not ending.is_set():
            try:
                acknowledged.append(submit(process))
                arrived.set()
            except JobDefinitionUnavailable:
                time.sleep(0.05)

    threads = [threading.Thread(target=submit_until_the_end) for _ in range(SUBMITTERS)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(ROUNDS):
            process.wait()
            arrived.clear()
            assert arrived.wait(60)
            time.sleep(rng.uniform(0, 0.5))
            process.kill()
            process.start()
        process.wait()
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    process.kill()

    database = Database(process.state_url)
    scripts = Scripts(database, ScriptSeal((KEY.encode(),)), chain.contracts.job_id)
    lost = [script_id for script_id in acknowledged if scripts.get(script_id) is None]
    database.close()
    assert len(acknowledged) >= ROUNDS
    assert lost == []
