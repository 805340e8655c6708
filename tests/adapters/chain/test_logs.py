# SPDX-License-Identifier: Apache-2.0
"""Log entries of a range: none is missed, whichever node answers."""

from __future__ import annotations

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.generations import on_both
from tests.fakes.ledger import HARDWARE, PRICES

from gridstead import config
from gridstead.adapters.chain import logs as logs_module
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.events import EventReader
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.logs import PINNED_BLOCKS, read_logs
from gridstead.adapters.chain.node import RpcError
from gridstead.adapters.transactions.encode import encode
from gridstead.domain.chain.events import ChainEventKind
from gridstead.domain.transactions.calls import ClaimJobs, Match, Register
from gridstead.errors import ChainUnavailable
from gridstead.wiring.chain import open_chain


class Servers:
    """An endpoint with two servers; one answers some methods and has no block above a height."""

    def __init__(self, node, height, behind):
        self._node, self._height, self._behind = node, height, behind
        self._known = {
            node.ask("eth_getBlockByNumber", hex(n), False)["hash"] for n in range(height + 1)
        }

    def batch(self, requests):
        return [self._answer(method, parameters) for method, parameters in requests]

    def _answer(self, method, parameters):
        if method in self._behind:
            return self._answer_late(method, parameters)
        return self._node.batch([(method, parameters)])[0]

    def _answer_late(self, method, parameters):
        request = parameters[0]
        if method == "eth_getBlockByNumber":
            return None if int(request, 16) > self._height else self._node.ask(method, *parameters)
        if "blockHash" in request:
            if request["blockHash"] not in self._known:
                return RpcError(code=-32000, message="unknown block", data="")
            return self._node.ask(method, request)
        last = min(int(request["toBlock"], 16), self._height)
        if int(request["fromBlock"], 16) > last:
            return []
        return self._node.ask(method, {**request, "toBlock": hex(last)})


BLOCKS, LOGS = "eth_getBlockByNumber", "eth_getLogs"


@pytest.fixture
def grid(chain):
    real_grid = RealGrid(chain)
    real_grid.register()
    real_grid.approve()
    return real_grid


@pytest.fixture
def log_filter(chain):
    return EventReader(chain.contracts).filter()


@pytest.mark.parametrize("behind", [{LOGS}, {BLOCKS}, {LOGS, BLOCKS}])
def test_newest_log_is_not_missed_on_a_lagging_server(grid, chain, log_filter, behind):
    height = grid.ledger.head().number
    grid.request("script-1")
    node = Servers(chain.node, height, behind)

    with pytest.raises(ChainUnavailable):
        read_logs(node, log_filter, first=height, end=grid.ledger.head())


def test_older_log_is_not_missed_on_a_lagging_server(grid, chain, log_filter):
    height = grid.ledger.head().number
    grid.request("script-1")
    grid.mine(PINNED_BLOCKS + 2)
    node = Servers(chain.node, height, {LOGS, BLOCKS})

    with pytest.raises(ChainUnavailable):
        read_logs(node, log_filter, first=height, end=grid.ledger.head())


@pytest.mark.parametrize("per_read", [1000, 3])
def test_older_log_is_not_missed_on_another_fork(grid, chain, log_filter, monkeypatch, per_read):
    """The fork may be deeper than the blocks that are requested one by one."""
    height = grid.ledger.head().number
    grid.request("script-1")
    grid.mine(PINNED_BLOCKS + 6)
    real = chain.node.batch

    def other_fork(requests):
        answers = real(requests)
        if any(method == LOGS and "toBlock" in params[0] for method, params in requests):
            return list(map(of_other_fork, answers))
        return answers

    def of_other_fork(answer):
        return [] if isinstance(answer, list) else {**answer, "hash": "0x00"}

    monkeypatch.setattr(logs_module, "BLOCKS_PER_READ", per_read)
    node = type("Forked", (), {"batch": staticmethod(other_fork)})()

    with pytest.raises(ChainUnavailable, match="could not read the chain's events"):
        read_logs(node, log_filter, first=height, end=grid.ledger.head())


def test_logs_of_two_forks_are_not_mixed(grid, chain, log_filter):
    head = grid.ledger.head()
    real = chain.node.batch

    def forked(requests):
        answers = real(requests)
        for index, answer in enumerate(answers):
            if isinstance(answer, dict) and int(answer["number"], 16) == head.number:
                answers[index] = {**answer, "parentHash": "0x00"}
        return answers

    node = type("Forked", (), {"batch": staticmethod(forked)})()

    with pytest.raises(ChainUnavailable, match="could not read the chain's events"):
        read_logs(node, log_filter, first=0, end=head)


def test_newest_log_is_not_missed_on_another_fork(grid, chain, log_filter):
    before = grid.ledger.head()
    grid.request("script-1")
    head = grid.ledger.head()
    assert read_logs(chain.node, log_filter, first=before.number, end=head)
    grid.reorg(head.number - before.number)
    grid.mine(max(0, head.number - grid.ledger.head().number))
    other = grid.ledger.block(head.number)
    assert other is not None
    assert other.hash != head.hash

    with pytest.raises(ChainUnavailable, match="could not read the chain's events"):
        read_logs(chain.node, log_filter, first=before.number, end=head)


@pytest.mark.parametrize(("per_read", "pinned"), [(1, 1), (3, 2), (5, 7), (1000, 1), (1000, 50)])
def test_pages_have_all_logs(grid, chain, log_filter, monkeypatch, per_read, pinned):
    for place in range(3):
        grid.request(f"script-{place}")
        grid.mine(place)
    head = grid.ledger.head()
    whole = chain.node.ask(LOGS, {**log_filter, "fromBlock": "0x0", "toBlock": hex(head.number)})
    monkeypatch.setattr(logs_module, "BLOCKS_PER_READ", per_read)
    monkeypatch.setattr(logs_module, "PINNED_BLOCKS", pinned)

    assert read_logs(chain.node, log_filter, first=0, end=head) == whole
    assert read_logs(chain.node, log_filter, first=head.number + 1, end=head) == []


@on_both
def test_claims_of_one_provider_are_read(grid, chain, expected):
    """The events of our contracts are filtered by provider; on plain DeepSquare all claims are
    read.
    """
    other = chain.operator
    other_account = Customer(chain.node, chain.contracts, other)
    register = encode([Register(hardware=HARDWARE, prices=PRICES, labels=())], chain.contracts)
    other_account._direct.transact(register.to, register.data, name="register")
    chain.as_admin.approve_provider(other.address)
    mine, theirs = grid.request("script-1"), grid.request("script-2")
    grid.match(mine)
    job = grid.job(theirs)
    match = encode([Match(job_key=job.job_key, provider=other.address)], chain.contracts)
    other_account._direct.transact(match.to, match.data, name="match")
    grid.claim()
    claim = encode([ClaimJobs(limit=1)], chain.contracts)
    other_account._direct.transact(claim.to, claim.data, name="claim")

    ledger = ChainLedger(chain.node, chain.contracts, claims_of=grid.provider)
    events = ledger.events(first=0, end=ledger.head())

    claims = [(mine, grid.provider)]
    if not expected.own_events:
        claims.append((theirs, other.address))
    assert [(event.job_id.number, event.provider) for event in events] == claims
    assert {event.kind for event in events} == {ChainEventKind.JOB_CLAIMED}


@on_both
def test_first_block_above_the_head_is_an_error(chain):
    """Without the check, services would wait for the block without a message."""
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
