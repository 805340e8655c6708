# SPDX-License-Identifier: Apache-2.0
"""A customer who signs a job request in advance. The test decides when to send the request."""

from tests.e2e.many_customers import CREDIT

from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.customer import Customer, JobRequest, to_arguments
from gridstead.adapters.definitions.job_definitions import submit_workflow
from gridstead.adapters.transactions.account import to_fields
from gridstead.config import ClientSettings, load
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.transactions.outbox import Fees
from gridstead.wiring.chain import open_chain, open_wallet

REQUEST_GAS = 900_000
FEES = Fees(max_fee=100 * 10**9, tip=10**9)
RESOURCES = Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=64)


class RequestSigner:
    """A customer with a connection to the chain, who signs requests without sending them.

    Args:
        user: A user with a wallet and a settings file.
    """

    def __init__(self, user):
        self.user = user
        self.address = user.address
        self._settings = load(ClientSettings, user.settings)
        self._wallet = open_wallet(self._settings.wallet)
        self.chain = open_chain(self._settings.chain)

    def sign_request(self, workflow, *, credits_):
        """Store a one-step workflow, approve the credits and return the signed request as hex."""
        Customer(self.chain.node, self.chain.contracts, self._wallet).allow(credits_ * CREDIT)
        # The Job Definition service stores the workflow's script and returns the script's id.
        script_id = submit_workflow(
            self._settings.job_definitions_url, workflow, ca=self._settings.ca_file
        )
        job_request = JobRequest(
            resources=RESOURCES,
            batch_location_hash=script_id,
            escrow=credits_ * CREDIT,
            name="signed",
        )
        contracts = self.chain.contracts
        call_data = contracts.meta_scheduler.data("requestNewJob", *to_arguments(job_request))
        nonce = int(self.chain.node.ask("eth_getTransactionCount", self.address, "latest"), 16)
        fields = to_fields(
            Payload(to=contracts.meta_scheduler.address, data=call_data, gas=None),
            chain_id=contracts.chain_id,
            nonce=nonce,
            gas=REQUEST_GAS,
            fees=FEES,
        )
        return self._wallet.sign_transaction(fields).raw
