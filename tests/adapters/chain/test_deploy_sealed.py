# SPDX-License-Identifier: Apache-2.0
"""Tests of the last step of a deployment, which seals the set of contracts.

In this step, the administrator renounces the admin role of JobRepository. Nobody can then change
the roles of JobRepository any more. The deployment omits the step if a wrong account has or had a
role.
"""

from __future__ import annotations

import pytest
from tests.adapters.chain.deploying import ADMIN, STEP_COUNT
from tests.devnet import wallet

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.contracts.deployment_file import read
from gridstead.adapters.contracts.factory import STANDARD_FACTORY
from gridstead.adapters.contracts.steps import role_id
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.contracts.deployment import SEALED
from gridstead.domain.diagnostic import Severity

# The address of a wallet to which tests grant a role that no wallet should have in JobRepository.
IMPOSTOR = wallet(68).address
# The diagnostic of a set that is not sealed: severity, contract and hint.
UNSEALED_NOTE = (Severity.NOTE, ("JobRepository",), "Run `gridstead contracts seal`.")


class UnsealedDeployment:
    """A deployment that was interrupted before its last step, and its contracts."""

    def __init__(self, site):
        site.crash(STEP_COUNT, sent=False)
        self.site, self.addresses = site, read(site.path).contracts
        self._contracts = find_contracts(site.chain.node, self.addresses["MetaScheduler"])

    def change(self, function, role, account):
        """Grant or revoke a role in JobRepository, with a transaction of the administrator."""
        data = self._contracts.jobs.data(function, role_id(role), account)
        DirectSender(self.site.chain.node, ADMIN).transact(
            self._contracts.jobs.address, data, name=function
        )

    def inspect(self):
        return self.site.inspect(self.addresses)

    def check_only_admin_is_reported(self):
        """Assert that the only diagnostic is that JobRepository still has an admin."""
        (diagnostic,) = check_contracts(self.inspect())
        assert (diagnostic.severity, diagnostic.where, diagnostic.hint) == UNSEALED_NOTE
        assert diagnostic.what.startswith(f"{ADMIN.address} can ")


@pytest.fixture
def unsealed_deployment(site):
    """A deployment that was interrupted before its last step."""
    return UnsealedDeployment(site)


def test_set_is_sealed_at_the_end(site):
    addresses = site.run()

    state = site.inspect(addresses)
    assert state.is_sealed
    assert check_contracts(state) == ()
    assert site.reported[-1].startswith(f"{SEALED}: done in block ")


def test_set_with_an_impostor_is_not_sealed(unsealed_deployment):
    unsealed_deployment.change("grantRole", "METASCHEDULER_ROLE", IMPOSTOR)

    assert unsealed_deployment.site.plan_steps() == ()
    assert unsealed_deployment.site.run() == unsealed_deployment.addresses

    writer, admin = check_contracts(unsealed_deployment.inspect())
    assert (writer.severity, writer.where) == (Severity.POWER, ("JobRepository",))
    assert writer.what.split()[:4] == [IMPOSTOR, "may", "write", "to"]
    assert writer.hint == f"Run `gridstead contracts revoke contract {IMPOSTOR}` at once."
    assert (admin.severity, admin.where, admin.hint) == UNSEALED_NOTE


def test_set_with_a_former_impostor_is_not_sealed(unsealed_deployment):
    unsealed_deployment.change("grantRole", "METASCHEDULER_ROLE", IMPOSTOR)
    unsealed_deployment.change("revokeRole", "METASCHEDULER_ROLE", IMPOSTOR)

    assert unsealed_deployment.site.run() == unsealed_deployment.addresses

    unsealed_deployment.check_only_admin_is_reported()


def test_set_with_a_second_admin_is_not_sealed(unsealed_deployment):
    """The seal would take the role from the first admin only. The second admin would retain it."""
    unsealed_deployment.change("grantRole", "DEFAULT_ADMIN_ROLE", IMPOSTOR)

    assert unsealed_deployment.site.plan_steps() == ()
    texts = [diagnostic.what for diagnostic in check_contracts(unsealed_deployment.inspect())]
    assert any(text.startswith(f"{ADMIN.address}, {IMPOSTOR} can ") for text in texts)


def is_not_first_grant(log):
    """Return whether an event is not a grant by the deployer, as in the constructors."""
    return STANDARD_FACTORY[2:] not in log["topics"][-1]


@pytest.mark.parametrize(
    "hide_events",
    [
        lambda _: RpcError(code=-32601, message="method not found", data=""),
        lambda _: [],
        lambda logs: list(filter(is_not_first_grant, logs)),
    ],
    ids=["error", "no event", "all but the first grant of a role"],
)
def test_set_is_not_sealed_if_the_node_hides_events(unsealed_deployment, hide_events):
    class NodeWithoutEvents(Node):
        """A node whose answers to eth_getLogs are changed by ``hide_events``."""

        def batch(self, requests):
            answers = super().batch(requests)
            for index, (method, _) in enumerate(requests):
                if method == "eth_getLogs":
                    answers[index] = hide_events(answers[index])
            return answers

    site = unsealed_deployment.site
    assert site.run(site.node(NodeWithoutEvents)) == unsealed_deployment.addresses
    unsealed_deployment.check_only_admin_is_reported()

    site.check(site.run())


def test_unsealed_set_of_an_earlier_release_is_sealed(unsealed_deployment):
    site = unsealed_deployment.site
    site.keep_only_fields_of_earlier_releases()

    (step,) = site.plan_steps()
    assert step.title == SEALED
    site.check(site.run())


def test_roles_of_a_new_operator_are_granted_before_the_seal(unsealed_deployment):
    site = unsealed_deployment.site

    site.run(operator=IMPOSTOR)

    # The two grants are not steps of the first deployment.
    assert site.next_nonce() == STEP_COUNT + 2
    assert unsealed_deployment.inspect().is_sealed
    assert site.plan_steps(operator=IMPOSTOR) == ()
