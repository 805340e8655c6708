# SPDX-License-Identifier: Apache-2.0
"""The last step of a deployment, which cannot be undone: when it is taken, and when it is not."""

from __future__ import annotations

import json

import pytest
from tests.adapters.chain.deploying import ADMIN, STEPS
from tests.devnet import COIN, wallet

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.deployment_file import read
from gridstead.adapters.chain.direct import DirectSender
from gridstead.adapters.chain.inspection import Inspector
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.chain.steps import role_id
from gridstead.domain.contract_checks import check_contracts
from gridstead.domain.deployment import SEALED
from gridstead.domain.diagnostic import Severity

IMPOSTOR = wallet(68).address
OPEN = (Severity.NOTE, ("JobRepository",), "Run `gridstead contracts seal`.")


class Unsealed:
    """A deployment that was cut short before its last step."""

    def __init__(self, site):
        site.crash(STEPS, sent=False)
        self.site, self.addresses = site, read(site.path).contracts
        self._contracts = find_contracts(site.chain.node, self.addresses["MetaScheduler"])

    def change(self, function, role, account):
        """Do as the administrator what no plan says, in JobRepository."""
        data = self._contracts.jobs.data(function, role_id(role), account)
        DirectSender(self.site.chain.node, ADMIN).transact(
            self._contracts.jobs.address, data, name=function
        )

    def inspect(self):
        return Inspector(
            self.site.chain.node, self._contracts, report=self.site.told.append
        ).inspect()

    def is_open(self):
        """Return whether the only diagnostic is that it still has an admin."""
        (diagnostic,) = check_contracts(self.inspect())
        return (diagnostic.severity, diagnostic.where, diagnostic.hint) == OPEN and (
            diagnostic.what.startswith(f"{ADMIN.address} can ")
        )


@pytest.fixture
def unsealed(site):
    """A deployment that was cut short before its last step."""
    return Unsealed(site)


def test_a_set_is_sealed_in_the_end(site):
    addresses = site.run()

    contracts = find_contracts(site.chain.node, addresses["MetaScheduler"])
    state = Inspector(site.chain.node, contracts, report=site.told.append).inspect()
    assert (state.is_sealed, check_contracts(state)) == (True, ())
    assert site.told[-1].startswith(f"{SEALED}: done in block ")


def test_a_stranger_who_may_write_is_not_made_lasting(unsealed):
    unsealed.change("grantRole", "METASCHEDULER_ROLE", IMPOSTOR)

    assert unsealed.site.plan() == ()
    assert unsealed.site.run() == unsealed.addresses

    writer, admin = check_contracts(unsealed.inspect())
    assert (writer.severity, writer.where) == (Severity.POWER, ("JobRepository",))
    assert writer.what.split()[:4] == [IMPOSTOR, "may", "write", "to"]
    assert writer.hint == f"Run `gridstead contracts revoke contract {IMPOSTOR}` at once."
    assert (admin.severity, admin.where, admin.hint) == OPEN


def test_a_stranger_who_might_write_once_is_left_to_the_administrator(unsealed):
    unsealed.change("grantRole", "METASCHEDULER_ROLE", IMPOSTOR)
    unsealed.change("revokeRole", "METASCHEDULER_ROLE", IMPOSTOR)

    assert unsealed.site.run() == unsealed.addresses

    assert unsealed.is_open()


def test_an_admin_does_not_resign_beside_another_one(unsealed):
    """It would not be sealed by that, and the first one could not seal it any more."""
    unsealed.change("grantRole", "DEFAULT_ADMIN_ROLE", IMPOSTOR)

    assert unsealed.site.plan() == ()
    texts = [diagnostic.what for diagnostic in check_contracts(unsealed.inspect())]
    assert any(text.startswith(f"{ADMIN.address}, {IMPOSTOR} can ") for text in texts)


@pytest.mark.parametrize(
    "told",
    [
        lambda _: RpcError(code=-32601, message="method not found", data=""),
        lambda _: [],
        lambda logs: logs[1:],
    ],
    ids=["none", "no event", "not the first"],
)
def test_a_set_whose_events_the_node_does_not_tell_is_sealed_by_a_run_with_another_node(
    unsealed, told
):
    class BlindNode(Node):
        def batch(self, requests):
            answers = super().batch(requests)
            asked = [method == "eth_getLogs" for method, _ in requests]
            return [
                told(answer) if logs else answer
                for logs, answer in zip(asked, answers, strict=True)
            ]

    site = unsealed.site
    assert site.run(site.node(BlindNode)) == unsealed.addresses
    assert unsealed.is_open()

    site.check(site.run())


def test_a_set_that_an_earlier_release_left_unsealed_is_sealed_by_the_next_run(unsealed):
    site = unsealed.site
    document = json.loads(site.path.read_text())
    site.path.write_text(
        json.dumps({k: document[k] for k in ("chain_id", "genesis", "admin", "contracts")})
    )

    assert [one.title for one in site.plan()] == [SEALED]
    site.check(site.run())


def test_a_run_with_another_meta_scheduler_goes_on_before_a_seal_that_was_only_written_down(
    unsealed, monkeypatch
):
    """Its new roles come first, so the seal cannot keep the nonce that was meant for it."""
    monkeypatch.setattr("gridstead.adapters.chain.deploy.TIMEOUT_S", 5.0)
    site = unsealed.site

    site.deployment().run(operator=IMPOSTOR, supply=COIN)

    assert site.used() == STEPS + 3
    assert (unsealed.inspect().is_sealed, site.plan()) == (True, ())
