# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts status` on a real chain."""

from __future__ import annotations

import pytest
from tests.adapters.chain.contracts_command import (
    ADMIN,
    NEW_OWNER,
    REFUSED,
    UNUSED_ADDRESS,
    contract_addresses,
    field_values,
    holders,
)
from tests.adapters.chain.deploying import has_method
from tests.adapters.chain.generations import on_unsealed
from tests.adapters.chain.grids import RealGrid, join_real_grid
from tests.devnet import CHAIN_ID, COIN, wallet

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.adapters.contracts.role_history import search
from gridstead.adapters.contracts.steps import DEFAULT_ADMIN_ROLE_ID
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.contracts.administration import grant
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.contracts.constants import CONSTANTS
from gridstead.domain.contracts.deployment import Role
from gridstead.domain.contracts.releases import THIS_RELEASE
from gridstead.domain.diagnostic import Severity


def test_status_of_a_complete_set_of_contracts_has_no_findings(contracts_cli):
    code, status = contracts_cli.status()

    assert code == 0
    assert set(status) == {
        "chain_id", "block", "version", "generation", "first_block", "accepts_jobs",
        "claim_timeout_blocks", "claim_timeout_s", "contracts", "roles", "owners", "constants",
        "accrued_fees_wei", "escrow", "verdict",
    }  # fmt: skip
    assert (status["chain_id"], status["generation"], status["accepts_jobs"]) == (CHAIN_ID, 3, True)
    assert field_values(status["constants"], "name") == {constant.name for constant in CONSTANTS}
    assert status["version"] == THIS_RELEASE
    assert status["verdict"] == {"right": True, "exit_code": 0, "findings": []}
    assert status["first_block"] == 1


def test_status_of_a_complete_set_lists_its_contracts_and_roles(contracts_cli, chain):
    _, status = contracts_cli.status()

    assert contract_addresses(status) == chain.addresses
    for entry in status["contracts"]:
        assert entry["code"] == "ours"
        assert entry["code_hash"] == entry["expected_hash"]
    governed_contracts = ("MetaScheduler", "ProviderManager")
    assert holders(status, "admin") == {
        (name, wallet(ADMIN).address) for name in governed_contracts
    }
    assert holders(status, "matcher") == {
        (name, chain.operator.address) for name in governed_contracts
    }


def test_status_has_the_sum_of_the_escrows(contracts_cli, chain):
    grid = join_real_grid(chain)
    settled_job = grid.request("script-1")
    grid.request("script-2")
    grid.match(settled_job)
    grid.claim()
    grid.run(settled_job, grid.ledger.head().timestamp)
    grid.pass_time(120)
    grid.settle(settled_job, seconds=60)

    code, status = contracts_cli.status()

    escrow = status["escrow"]
    assert (code, escrow["jobs"], escrow["hot_jobs"], escrow["adds_up"]) == (0, 2, 1, True)
    assert (escrow["escrowed_wei"], escrow["surplus_wei"]) == (200 * COIN, 0)
    assert escrow["accrued_fees_wei"] == status["accrued_fees_wei"]
    assert escrow["accrued_fees_wei"] > 0


def test_status_with_skip_escrow_has_no_escrow(contracts_cli):
    _, status = contracts_cli.status("--skip-escrow")

    assert status["escrow"] is None


def findings(status):
    return status["verdict"]["findings"]


def test_surplus_of_credits_is_reported(contracts_cli, chain):
    chain.as_customer.transfer(chain.addresses["MetaScheduler"], 5)

    _, status = contracts_cli.status()

    text = "MetaScheduler holds 5 wei of credits more than it owes"
    assert findings(status)[0]["text"] == text


def test_status_fails_if_credits_of_the_escrow_are_missing(contracts_cli, chain):
    RealGrid(chain).request("script-1")
    meta_scheduler = chain.addresses["MetaScheduler"]
    chain.anvil.rpc("anvil_impersonateAccount", meta_scheduler)
    chain.anvil.fund(meta_scheduler)
    transfer = chain.contracts.credit.data("transfer", UNUSED_ADDRESS, 1)
    chain.anvil.rpc(
        "eth_sendTransaction",
        {"from": meta_scheduler, "to": chain.addresses["Credit"], "data": transfer},
    )

    code, status = contracts_cli.status()

    assert code == 70  # the exit code for a finding of kind "escrow"
    assert findings(status)[0]["kind"] == "escrow"
    assert status["escrow"]["adds_up"] is False


def test_status_is_printed_as_tables(contracts_cli, chain):
    chain.anvil.mine_at_intervals(1200, 2)

    code, out, err = contracts_cli.read("status")

    assert (code, err) == (0, "")
    for address in chain.addresses.values():
        assert address in out
    assert "20 percent" in out
    assert "10 blocks, about 20 s" in out
    assert "all checks passed" in out


def make_writer(chain, account):
    """Grant an account a role in JobRepository that no account but MetaScheduler should have."""
    jobs = chain.contracts.jobs
    role_getter = artifact("JobRepository").functions["METASCHEDULER_ROLE"]
    call = {"to": jobs.address, "data": role_getter.encode()}
    role_id = bytes.fromhex(chain.node.ask("eth_call", call, "latest")[2:])
    DirectSender(chain.node, wallet(ADMIN)).transact(
        jobs.address, jobs.data("grantRole", role_id, account), name="grantRole"
    )


@on_unsealed
def test_status_finds_changed_code_and_an_account_with_the_role_of_a_contract(contracts_cli, chain):
    make_writer(chain, UNUSED_ADDRESS)
    bytecode = chain.anvil.rpc("eth_getCode", chain.addresses["Credit"], "latest")
    changed_bytecode = bytecode + "00"
    chain.anvil.rpc("anvil_setCode", chain.addresses["Credit"], changed_bytecode)

    code, status = contracts_cli.status()

    assert code == 77  # the exit code for the most serious finding, of kind "power"
    kinds = [finding["kind"] for finding in findings(status)]
    assert kinds == ["power", "code", "note"]
    assert contracts_cli.run("revoke", "contract", UNUSED_ADDRESS)[0] == 0
    assert contracts_cli.status()[0] == 76  # the exit code for a finding of kind "code"


@on_unsealed
def test_role_that_an_account_has_in_a_sealed_set_cannot_be_revoked(contracts_cli, chain):
    make_writer(chain, UNUSED_ADDRESS)
    assert contracts_cli.run("seal")[0] == REFUSED
    jobs, admin = chain.contracts.jobs, wallet(ADMIN)
    DirectSender(chain.node, admin).transact(
        jobs.address,
        jobs.data("renounceRole", DEFAULT_ADMIN_ROLE_ID, admin.address),
        name="renounceRole",
    )

    code, status = contracts_cli.status()

    (finding,) = findings(status)
    assert (code, finding["kind"]) == (77, "power")
    assert finding["hint"].startswith("Close the set at once,")
    assert contracts_cli.run("revoke", "contract", UNUSED_ADDRESS)[0] == REFUSED
    assert contracts_cli.run("close")[0] == 0


@on_unsealed
def test_status_reports_an_unsealed_set_of_contracts(contracts_cli):
    code, status = contracts_cli.status()

    (finding,) = findings(status)
    assert (code, finding["kind"]) == (0, "note")
    assert finding["hint"] == "Run `gridstead contracts seal`."
    assert contracts_cli.run("seal").code == 0
    _, status = contracts_cli.status()
    assert findings(status) == []


@pytest.mark.parametrize("generation", ["2.0.0"], indirect=True)
def test_status_recognises_the_code_of_an_earlier_release(contracts_cli, chain):
    code, status = contracts_cli.status()

    assert (code, status["version"], status["generation"]) == (0, "2.0.0", 2)
    assert field_values(status["contracts"], "code") == {"earlier"}
    (finding,) = findings(status)
    assert (finding["kind"], "an earlier release" in finding["text"]) == ("note", True)
    credit = chain.addresses["Credit"]
    changed_bytecode = chain.anvil.rpc("eth_getCode", credit, "latest") + "00"
    chain.anvil.rpc("anvil_setCode", credit, changed_bytecode)
    assert contracts_cli.status()[0] == 76  # the exit code for a finding of kind "code"


@pytest.mark.parametrize("generation", ["1.2"], indirect=True)
def test_status_reads_the_contracts_of_deepsquare(contracts_cli, chain):
    code, status = contracts_cli.status()

    assert (code, status["version"], status["generation"]) == (0, None, 1)
    assert field_values(status["contracts"], "code") == {"foreign"}
    assert field_values(status["owners"], "offered_to") == {None}
    assert "startTimeout" not in field_values(status["constants"], "name")


@pytest.mark.parametrize("generation", ["1.2"], indirect=True)
def test_contracts_of_deepsquare_cannot_be_handed_over(contracts_cli):
    code, _, err = contracts_cli.run("hand-over", wallet(NEW_OWNER).address)

    assert code == REFUSED
    assert "cannot offer Constants" in err


class LimitedNode(Node):
    """A node that refuses to search more than 300 blocks for events.

    Attributes:
        searches: How many searches for events were requested.
    """

    searches = 0

    def batch(self, requests):
        for method, parameters in requests:
            if method == "eth_getLogs":
                self.searches += 1
                if block_count(parameters[0]) > 300:
                    return [RpcError(code=-32000, message="range too large", data="")]
        return super().batch(requests)


def block_count(log_filter):
    return int(log_filter["toBlock"], 16) - int(log_filter["fromBlock"], 16)


def test_event_search_is_split_for_a_limited_node(chain):
    chain.anvil.mine_at_intervals(640)  # more blocks than two searches can cover
    node = LimitedNode(chain.anvil.url)
    contracts = [chain.contracts.meta_scheduler, chain.contracts.jobs, chain.contracts.providers]
    head = RealGrid(chain).ledger.head()

    in_pieces = search(node, contracts, head=head, first=None)
    at_once = search(chain.node, contracts, head=head, first=None)

    node.close()
    assert in_pieces == at_once
    assert node.searches > 2


def test_only_roles_of_given_accounts_are_found_without_events(chain):
    class NodeWithoutEvents(Node):
        def batch(self, requests):
            if has_method(requests, "eth_getLogs"):
                return [RpcError(code=-32601, message="method not found", data="")]
            return super().batch(requests)

    node = NodeWithoutEvents(chain.anvil.url)
    state = Inspector(node, chain.contracts, report=lambda _: None).inspect(
        accounts=(chain.operator.address,)
    )
    node.close()

    assert state.first_block is None
    assert state.holds("MetaScheduler", Role.MATCHER, chain.operator.address)
    assert Severity.NOTE in {diagnostic.severity for diagnostic in check_contracts(state)}
    # The grant needs no transaction, because the account already has the role.
    assert grant(state, wallet(NEW_OWNER).address, Role.MATCHER, chain.operator.address) == ()
