# SPDX-License-Identifier: Apache-2.0
"""Log entries by range: none is hidden, whoever answers."""

from __future__ import annotations

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.generations import on_both
from tests.fakes.ledger import HARDWARE, PRICES

from gridstead import config
from gridstead.adapters.chain import logs as logs_module
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.encode import encode
from gridstead.adapters.chain.events import EventReader
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.logs import PINNED_BLOCKS, read_logs
from gridstead.adapters.chain.node import RpcError
from gridstead.domain.calls import ClaimJobs, Match, Register
from gridstead.domain.events import ChainEventKind
from gridstead.errors import ChainUnavailable
from gridstead.wiring.chain import open_chain


class Servers:
    """An endpoint with two servers behind it; one of them has no block above a height and answers
    some methods.
    """

    def __init__(self, node, height, behind):
        self._node, self._height, self._behind = node, height, behind
        self._known = {
            node.ask("eth_getBlockByNumber", hex(n), False)["hash"] for n in range(height + 1)
        }

    def batch(self, requests):
        return [
            self._late(m, p) if m in self._behind else self._node.batch([(m, p)])[0]
            for m, p in requests
        ]

    def _late(self, method, parameters):
        asked = parameters[0]
        if method == "eth_getBlockByNumber":
            return None if int(asked, 16) > self._height else self._node.ask(method, *parameters)
        if "blockHash" in asked:
            if asked["blockHash"] not in self._known:
                return RpcError(code=-32000, message="unknown block", data="")
            return self._node.ask(method, asked)
        last = min(int(asked["toBlock"], 16), self._height)
        return (
            self._node.ask(method, {**asked, "toBlock": hex(last)})
            if int(asked["fromBlock"], 16) <= last
            else []
        )


BLOCKS, LOGS = "eth_getBlockByNumber", "eth_getLogs"


@pytest.fixture
def grid(chain):
    made = RealGrid(chain)
    made.register()
    made.approve()
    return made


@pytest.fixture
def wanted(chain):
    return EventReader(chain.contracts).filter()


@pytest.mark.parametrize("behind", [{LOGS}, {BLOCKS}, {LOGS, BLOCKS}])
def test_newest_log_is_not_hidden_by_a_server_that_lags(grid, chain, wanted, behind):
    height = grid.ledger.head().number
    grid.request("script-1")
    node = Servers(chain.node, height, behind)

    with pytest.raises(ChainUnavailable):
        read_logs(node, wanted, first=height, end=grid.ledger.head())


def test_older_log_is_not_hidden_by_a_server_that_lags_far(grid, chain, wanted):
    height = grid.ledger.head().number
    grid.request("script-1")
    grid.mine(PINNED_BLOCKS + 2)
    node = Servers(chain.node, height, {LOGS, BLOCKS})

    with pytest.raises(ChainUnavailable):
        read_logs(node, wanted, first=height, end=grid.ledger.head())


@pytest.mark.parametrize("per_read", [1000, 3])
def test_older_log_is_not_hidden_by_a_server_on_another_fork(
    grid, chain, wanted, monkeypatch, per_read
):
    """Its fork may be deeper than the blocks that are asked for one by one."""
    height = grid.ledger.head().number
    grid.request("script-1")
    grid.mine(PINNED_BLOCKS + 6)
    real = chain.node.batch

    def other_fork(requests):
        answers = real(requests)
        if any(method == LOGS and "toBlock" in asked[0] for method, asked in requests):
            return [
                [] if isinstance(answer, list) else {**answer, "hash": "0x00"} for answer in answers
            ]
        return answers

    monkeypatch.setattr(logs_module, "BLOCKS_PER_READ", per_read)
    node = type("Forked", (), {"batch": staticmethod(other_fork)})()

    with pytest.raises(ChainUnavailable, match="could not read the chain's events"):
        read_logs(node, wanted, first=height, end=grid.ledger.head())


def test_logs_of_two_histories_are_not_mixed(grid, chain, wanted):
    head = grid.ledger.head()
    real = chain.node.batch

    def forked(requests):
        answers = real(requests)
        return [
            {**a, "parentHash": "0x00"}
            if isinstance(a, dict) and int(a["number"], 16) == head.number
            else a
            for a in answers
        ]

    node = type("Forked", (), {"batch": staticmethod(forked)})()

    with pytest.raises(ChainUnavailable, match="could not read the chain's events"):
        read_logs(node, wanted, first=0, end=head)


def test_log_of_a_block_is_not_hidden_by_a_server_on_another_fork_of_its_height(
    grid, chain, wanted
):
    before = grid.ledger.head()
    grid.request("script-1")
    head = grid.ledger.head()
    assert read_logs(chain.node, wanted, first=before.number, end=head)
    grid.reorg(head.number - before.number)
    grid.mine(max(0, head.number - grid.ledger.head().number))
    other = grid.ledger.block(head.number)
    assert other is not None
    assert other.hash != head.hash

    with pytest.raises(ChainUnavailable, match="could not read the chain's events"):
        read_logs(chain.node, wanted, first=before.number, end=head)


@pytest.mark.parametrize(("per_read", "pinned"), [(1, 1), (3, 2), (5, 7), (1000, 1), (1000, 50)])
def test_pages_are_the_whole(grid, chain, wanted, monkeypatch, per_read, pinned):
    for place in range(3):
        grid.request(f"script-{place}")
        grid.mine(place)
    head = grid.ledger.head()
    whole = chain.node.ask(LOGS, {**wanted, "fromBlock": "0x0", "toBlock": hex(head.number)})
    monkeypatch.setattr(logs_module, "BLOCKS_PER_READ", per_read)
    monkeypatch.setattr(logs_module, "PINNED_BLOCKS", pinned)

    assert read_logs(chain.node, wanted, first=0, end=head) == whole
    assert read_logs(chain.node, wanted, first=head.number + 1, end=head) == []


@on_both
def test_provider_may_hear_of_its_own_claims_alone(grid, chain, expected):
    """Our contracts are asked for them by provider; on plain DeepSquare all claims come, and
    nothing else.
    """
    other = chain.operator
    stranger = Customer(chain.node, chain.contracts, other)
    register = encode([Register(hardware=HARDWARE, prices=PRICES, labels=())], chain.contracts)
    stranger._direct.transact(register.to, register.data, name="register")
    chain.as_admin.approve_provider(other.address)
    mine, theirs = grid.request("script-1"), grid.request("script-2")
    grid.match(mine)
    job = grid.ledger.jobs([theirs], at_block=grid.ledger.head())[theirs]
    match = encode([Match(job_key=job.job_key, provider=other.address)], chain.contracts)
    stranger._direct.transact(match.to, match.data, name="match")
    grid.claim()
    claim = encode([ClaimJobs(limit=1)], chain.contracts)
    stranger._direct.transact(claim.to, claim.data, name="claim")

    ledger = ChainLedger(chain.node, chain.contracts, claims_of=grid.provider)
    events = ledger.events(first=0, end=ledger.head())

    wanted = (
        [(mine, grid.provider)]
        if expected.own_events
        else [(mine, grid.provider), (theirs, other.address)]
    )
    assert [(event.job_number, event.provider) for event in events] == wanted
    assert {event.kind for event in events} == {ChainEventKind.JOB_CLAIMED}


@on_both
def test_first_block_above_the_chain_is_told(chain):
    """Its readers would wait for it in silence."""
    newest = int(chain.node.ask("eth_blockNumber"), 16)
    settings = config.Chain(
        rpc_url=chain.anvil.url,
        chain_id=chain.contracts.chain_id,
        contract=chain.addresses["MetaScheduler"],
        confirmations=1,
        first_block=newest,
    )

    opened = open_chain(settings)
    opened.node.close()
    assert opened.first_block == newest
    with pytest.raises(ChainUnavailable, match=f"first_block is {newest + 1}"):
        open_chain(settings.model_copy(update={"first_block": newest + 1}))
