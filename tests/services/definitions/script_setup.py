# SPDX-License-Identifier: Apache-2.0
"""The setup of the service tests: a Job Definition service, its job and the job's provider."""

from __future__ import annotations

from dataclasses import replace

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

from gridstead.domain.definitions.job_definition import ScriptRequest

KEY = b"k" * 32
CUSTOMER = "0x" + "c0" * 20
STORE = {
    "region": "eu", "bucketUrl": "s3://bucket", "path": "/x",
    "accessKeyId": "AKIA", "secretAccessKey": "hush",
    "endpointUrl": "https://store.example",
}  # fmt: skip


class DefinitionsSetup:
    """A service, a provider, and a job that is matched to the provider.

    The service has one script at first: the script of the job.
    """

    def __init__(self, **workflow) -> None:
        self.scripts = MemoryScripts()
        self.ledger = OneJobLedger()
        self.clock = FakeClock()
        self.wallet = Wallet()
        self.modules = MemoryModules()
        self.charged_sizes = []
        self.service = new_service(
            self.scripts, self.ledger, self.clock, key=KEY, modules=self.modules
        )
        self.script_id = self.submit(**workflow)
        self.job = matched_job(CUSTOMER, self.wallet.address, self.script_id)
        self.ledger.job = self.job

    def submit(self, customer="", **workflow):
        """Submit a workflow and return the id of its script."""
        return self.service.submit(wire_workflow(**workflow), customer, self.charged_sizes.append)

    def get_sbatch(self, wallet=None, **changes):
        """Send the request that ``request`` returns, and return the service's answer."""
        return self.service.get_sbatch(self.request(wallet, **changes))

    def request(self, wallet=None, **changes):
        """Return a valid request of the job's provider, or of another wallet, with changes.

        Field ``secrets_beside`` states whether the caller can receive secrets separately from the
        script.
        """
        wallet = wallet or self.wallet
        challenge = self.service.challenge()
        request = ScriptRequest(
            batch_location_hash=self.script_id,
            challenge=challenge,
            signature=wallet.sign(challenge),
            provider=wallet.address,
            customer=CUSTOMER,
            job_id=self.job.id,
            secrets_beside=True,
        )
        return replace(request, **changes)
