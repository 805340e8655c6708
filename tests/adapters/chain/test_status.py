# SPDX-License-Identifier: Apache-2.0
"""What `gridstead contracts status` finds on a real chain."""

from __future__ import annotations

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.contracts_command import ADMIN, NEW_OWNER, NOWHERE, REFUSED, holders
from tests.adapters.chain.generations import on_unsealed
from tests.devnet import CHAIN_ID, COIN, wallet

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.direct import DirectSender
from gridstead.adapters.chain.inspection import Inspector
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.chain.role_history import search
from gridstead.adapters.chain.steps import NO_ROLE
from gridstead.domain.administration import CONSTANTS, grant
from gridstead.domain.contract_checks import check_contracts
from gridstead.domain.deployment import Role
from gridstead.domain.diagnostic import Severity


def test_status_tells_everything_of_a_whole_set(contracts_cli, chain):
    code, found = contracts_cli.status()

    assert code == 0
    assert set(found) == {
        "chain_id", "block", "version", "generation", "first_block", "accepts_jobs", "contracts", "roles", "owners",
        "constants", "accrued_fees_wei", "escrow", "verdict",
    }  # fmt: skip
    assert (found["chain_id"], found["generation"], found["accepts_jobs"]) == (CHAIN_ID, 2, True)
    assert {one["contract"]: one["address"] for one in found["contracts"]} == chain.addresses
    assert {one["code"] for one in found["contracts"]} == {"ours"}
    assert all(one["code_hash"] == one["expected_hash"] for one in found["contracts"])
    assert holders(found, "admin") == {
        (one, wallet(ADMIN).address) for one in ("MetaScheduler", "ProviderManager")
    }
    assert holders(found, "matcher") == {
        (c, chain.operator.address) for c in ("MetaScheduler", "ProviderManager")
    }
    assert {one["name"] for one in found["constants"]} == {one.name for one in CONSTANTS}
    assert found["verdict"] == {"right": True, "exit_code": 0, "findings": []}
    assert found["first_block"] == 1


def test_status_counts_the_escrow_over_lives_of_jobs(contracts_cli, chain):
    grid = RealGrid(chain)
    grid.register()
    grid.approve()
    first, second = grid.request("script-1"), grid.request("script-2")
    grid.match(first)
    grid.claim()
    grid.run(first, grid.ledger.head().timestamp)
    grid.pass_time(120)
    grid.settle(first, seconds=60)

    code, found = contracts_cli.status()

    escrow = found["escrow"]
    assert (code, escrow["jobs"], escrow["hot_jobs"], escrow["adds_up"]) == (0, 2, 1, True)
    assert (escrow["escrowed_wei"], escrow["surplus_wei"]) == (200 * COIN, 0)
    assert escrow["accrued_fees_wei"] == found["accrued_fees_wei"] > 0
    assert second == first + 1
    assert contracts_cli.status("--skip-escrow")[1]["escrow"] is None


def test_an_escrow_that_does_not_add_up_is_the_gravest_of_all(contracts_cli, chain):
    chain.as_customer.transfer(chain.addresses["MetaScheduler"], 5)
    assert (
        contracts_cli.status()[1]["verdict"]["findings"][0]["text"]
        == "MetaScheduler holds 5 wei of credits more than it owes"
    )
    RealGrid(chain).request("script-1")
    grid = chain.addresses["MetaScheduler"]
    chain.anvil.rpc("anvil_impersonateAccount", grid)
    chain.anvil.fund(grid)
    theft = chain.contracts.credit.data("transfer", NOWHERE, 6)
    chain.anvil.rpc(
        "eth_sendTransaction", {"from": grid, "to": chain.addresses["Credit"], "data": theft}
    )

    code, found = contracts_cli.status()

    assert code == 70
    assert (found["verdict"]["findings"][0]["kind"], found["escrow"]["adds_up"]) == (
        "escrow",
        False,
    )


def test_status_shows_the_same_to_people(contracts_cli, chain):
    code, out, err = contracts_cli.read("status")

    assert (code, err) == (0, "")
    assert all(address in out for address in chain.addresses.values())
    assert "20 percent" in out
    assert "all checks passed" in out


def make_writer(chain, account):
    """Give an account the role that only MetaScheduler should have in JobRepository."""
    jobs = chain.contracts.jobs
    role = artifact("JobRepository").functions["METASCHEDULER_ROLE"]
    role_id = bytes.fromhex(
        chain.node.ask("eth_call", {"to": jobs.address, "data": role.encode()}, "latest")[2:]
    )
    DirectSender(chain.node, wallet(ADMIN)).transact(
        jobs.address, jobs.data("grantRole", role_id, account), name="grantRole"
    )


@on_unsealed
def test_status_finds_foreign_code_and_strangers_with_power(contracts_cli, chain):
    make_writer(chain, NOWHERE)
    code_of = chain.anvil.rpc("eth_getCode", chain.addresses["Credit"], "latest")
    chain.anvil.rpc("anvil_setCode", chain.addresses["Credit"], code_of + "00")

    code, found = contracts_cli.status()

    assert code == 77
    assert [one["kind"] for one in found["verdict"]["findings"]] == ["power", "code", "note"]
    assert contracts_cli.run("revoke", "contract", NOWHERE)[0] == 0
    assert contracts_cli.status()[0] == 76


@on_unsealed
def test_a_stranger_in_a_set_that_was_sealed_over_it_is_there_for_good(contracts_cli, chain):
    make_writer(chain, NOWHERE)
    assert contracts_cli.run("seal")[0] == REFUSED
    jobs, admin = chain.contracts.jobs, wallet(ADMIN)
    DirectSender(chain.node, admin).transact(
        jobs.address, jobs.data("renounceRole", NO_ROLE, admin.address), name="renounceRole"
    )

    code, found = contracts_cli.status()

    (finding,) = found["verdict"]["findings"]
    assert (code, finding["kind"], finding["hint"].split(",")[0]) == (
        77,
        "power",
        "Close the set at once",
    )
    assert contracts_cli.run("revoke", "contract", NOWHERE)[0] == REFUSED
    assert contracts_cli.run("close")[0] == 0


@on_unsealed
def test_status_says_that_a_set_is_not_sealed_yet(contracts_cli):
    code, found = contracts_cli.status()

    (finding,) = found["verdict"]["findings"]
    assert (code, finding["kind"], finding["hint"]) == (
        0,
        "note",
        "Run `gridstead contracts seal`.",
    )
    assert contracts_cli.run("seal")[0] == 0
    assert contracts_cli.status()[1]["verdict"]["findings"] == []


@pytest.mark.parametrize("generation", ["1.2"], indirect=True)
def test_status_of_the_first_generation_tells_what_there_is(contracts_cli, chain):
    code, found = contracts_cli.status()

    assert (code, found["version"], found["generation"]) == (0, None, 1)
    assert {one["code"] for one in found["contracts"]} == {"foreign"}
    assert all(one["offered_to"] is None for one in found["owners"])
    assert "startTimeout" not in {one["name"] for one in found["constants"]}
    code, _, err = contracts_cli.run("hand-over", wallet(NEW_OWNER).address)
    assert (code, "cannot offer Constants" in err) == (REFUSED, True)


def test_a_node_that_searches_few_blocks_is_asked_piece_by_piece(chain):
    chain.anvil.mine(40)
    asked = []

    class ShortSightedNode(Node):
        def batch(self, requests):
            spans = [
                int(p[0]["toBlock"], 16) - int(p[0]["fromBlock"], 16)
                for m, p in requests
                if m == "eth_getLogs"
            ]
            asked.extend(spans)
            if any(span > 300 for span in spans):
                return [RpcError(code=-32000, message="range too large", data="")]
            return super().batch(requests)

    chain.anvil.rpc("anvil_mine", hex(600))
    node = ShortSightedNode(chain.anvil.url)
    contracts = [chain.contracts.meta_scheduler, chain.contracts.jobs, chain.contracts.providers]
    head = Inspector(chain.node, chain.contracts, report=lambda _: None)._ledger.head()

    found = search(node, contracts, head=head, first=None)
    whole = search(chain.node, contracts, head=head, first=None)

    node.close()
    assert found == whole
    assert len(asked) > 2


def test_a_node_that_searches_no_events_leaves_roles_open_and_says_so(chain):
    class BlindNode(Node):
        def batch(self, requests):
            if any(method == "eth_getLogs" for method, _ in requests):
                return [RpcError(code=-32601, message="method not found", data="")]
            return super().batch(requests)

    node = BlindNode(chain.anvil.url)
    state = Inspector(node, chain.contracts, report=lambda _: None).inspect(
        accounts=(chain.operator.address,)
    )
    node.close()

    assert state.first_block is None
    assert state.holds("MetaScheduler", Role.MATCHER, chain.operator.address)
    assert Severity.NOTE in {diagnostic.severity for diagnostic in check_contracts(state)}
    assert grant(state, wallet(NEW_OWNER).address, Role.MATCHER, chain.operator.address) == ()
