# SPDX-License-Identifier: Apache-2.0
"""Reads of the log entries in a range of blocks, from nodes that lag or follow another fork.

The newest ``PINNED_BLOCKS`` blocks are read by their hashes, and older blocks by their numbers.
"""

from __future__ import annotations

import pytest
from tests.adapters.chain.generations import on_all
from tests.adapters.chain.grids import join_real_grid
from tests.fakes.ledger import HARDWARE, PRICES

from gridstead import config
from gridstead.adapters.chain import logs as logs_module
from gridstead.adapters.chain.events import EventReader
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.logs import PINNED_BLOCKS, read_logs
from gridstead.adapters.chain.node import RpcError
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.adapters.transactions.encode import encode
from gridstead.domain.chain.events import ChainEventKind
from gridstead.domain.transactions.calls import ClaimJobs, Match, Register
from gridstead.errors import ChainUnavailable
from gridstead.wiring.chain import open_chain

BLOCKS, LOGS = "eth_getBlockByNumber", "eth_getLogs"


class LaggingEndpoint:
    """An endpoint with two servers; one of them has no block above a height.

    Args:
        node: The server that has all blocks.
        height: The number of the lagging server's newest block.
        lagging_methods: The methods that the lagging server answers.
    """

    def __init__(self, node, height, lagging_methods):
        self._node = node
        self._height = height
        self._lagging_methods = lagging_methods
        self._known_hashes = set()
        for number in range(height + 1):
            block = node.ask(BLOCKS, hex(number), False)
            self._known_hashes.add(block["hash"])

    def batch(self, requests):
        return [self._answer(method, parameters) for method, parameters in requests]

    def _answer(self, method, parameters):
        if method not in self._lagging_methods:
            return self._node.batch([(method, parameters)])[0]
        if method == BLOCKS:
            return self._lagging_block(*parameters)
        return self._lagging_logs(*parameters)

    def _lagging_block(self, number, with_transactions):
        if int(number, 16) > self._height:
            return None
        return self._node.ask(BLOCKS, number, with_transactions)

    def _lagging_logs(self, log_filter):
        if "blockHash" in log_filter:
            if log_filter["blockHash"] not in self._known_hashes:
                return RpcError(code=-32000, message="unknown block", data="")
            return self._node.ask(LOGS, log_filter)
        last = min(int(log_filter["toBlock"], 16), self._height)
        if int(log_filter["fromBlock"], 16) > last:
            return []
        return self._node.ask(LOGS, {**log_filter, "toBlock": hex(last)})


@pytest.fixture
def grid(chain):
    """The grid. The provider has joined the grid."""
    return join_real_grid(chain)


@pytest.fixture
def log_filter(chain):
    """The filter of the events that the ledger reads."""
    return EventReader(chain.contracts).filter()


@pytest.mark.parametrize("lagging_methods", [{LOGS}, {BLOCKS}, {LOGS, BLOCKS}])
def test_read_of_the_newest_log_fails_on_a_lagging_server(grid, chain, log_filter, lagging_methods):
    height = grid.ledger.head().number
    grid.request("script-1")
    node = LaggingEndpoint(chain.node, height, lagging_methods)

    with pytest.raises(ChainUnavailable):
        read_logs(node, log_filter, first=height, end=grid.ledger.head())


def test_read_of_an_older_log_fails_on_a_lagging_server(grid, chain, log_filter):
    height = grid.ledger.head().number
    grid.request("script-1")
    grid.mine(PINNED_BLOCKS + 2)
    node = LaggingEndpoint(chain.node, height, {LOGS, BLOCKS})

    with pytest.raises(ChainUnavailable):
        read_logs(node, log_filter, first=height, end=grid.ledger.head())


class NodeOnAnotherFork:
    """A node that answers reads of a block range from a fork without logs."""

    def __init__(self, node):
        self._node = node

    def batch(self, requests):
        answers = self._node.batch(requests)
        for method, parameters in requests:
            if method == LOGS and "toBlock" in parameters[0]:
                return list(map(self._to_other_fork, answers))
        return answers

    def _to_other_fork(self, answer):
        # A list contains logs. Any other answer is a block.
        if isinstance(answer, list):
            return []
        return {**answer, "hash": "0x00"}


@pytest.mark.parametrize("blocks_per_read", [1000, 3])
def test_read_of_an_older_log_fails_on_another_fork(
    grid, chain, log_filter, monkeypatch, blocks_per_read
):
    """The two forks may differ in more than ``PINNED_BLOCKS`` blocks."""
    height = grid.ledger.head().number
    grid.request("script-1")
    grid.mine(PINNED_BLOCKS + 6)
    monkeypatch.setattr(logs_module, "BLOCKS_PER_READ", blocks_per_read)

    with pytest.raises(ChainUnavailable, match="could not read the chain's events"):
        read_logs(NodeOnAnotherFork(chain.node), log_filter, first=height, end=grid.ledger.head())


class NodeWithForkedHead:
    """A node whose block ``number`` has a parent on another fork."""

    def __init__(self, node, number):
        self._node, self._number = node, number

    def batch(self, requests):
        answers = self._node.batch(requests)
        for answer in answers:
            if isinstance(answer, dict) and int(answer["number"], 16) == self._number:
                answer["parentHash"] = "0x00"
        return answers


def test_read_of_logs_fails_if_the_blocks_are_of_two_forks(grid, chain, log_filter):
    head = grid.ledger.head()
    node = NodeWithForkedHead(chain.node, head.number)

    with pytest.raises(ChainUnavailable, match="could not read the chain's events"):
        read_logs(node, log_filter, first=0, end=head)


def test_read_of_the_newest_log_fails_after_a_reorg(grid, chain, log_filter):
    before = grid.ledger.head()
    grid.request("script-1")
    head = grid.ledger.head()
    assert read_logs(chain.node, log_filter, first=before.number, end=head)
    grid.reorg(head.number - before.number)
    # Mine until the new fork is as long as the old fork.
    grid.mine(max(0, head.number - grid.ledger.head().number))
    new_block = grid.ledger.block(head.number)
    assert new_block is not None
    assert new_block.hash != head.hash

    with pytest.raises(ChainUnavailable, match="could not read the chain's events"):
        read_logs(chain.node, log_filter, first=before.number, end=head)


@pytest.mark.parametrize(
    ("blocks_per_read", "pinned_blocks"), [(1, 1), (3, 2), (5, 7), (1000, 1), (1000, 50)]
)
def test_reads_of_several_block_ranges_return_all_logs(
    grid, chain, log_filter, monkeypatch, blocks_per_read, pinned_blocks
):
    for index in range(3):
        grid.request(f"script-{index}")
        grid.mine(index)
    head = grid.ledger.head()
    all_blocks = {"fromBlock": "0x0", "toBlock": hex(head.number)}
    all_logs = chain.node.ask(LOGS, log_filter | all_blocks)
    monkeypatch.setattr(logs_module, "BLOCKS_PER_READ", blocks_per_read)
    monkeypatch.setattr(logs_module, "PINNED_BLOCKS", pinned_blocks)

    assert read_logs(chain.node, log_filter, first=0, end=head) == all_logs
    assert read_logs(chain.node, log_filter, first=head.number + 1, end=head) == []


@on_all
def test_claims_of_one_provider_are_read(grid, chain, expected):
    """With our contracts, a filter selects the claims of one provider.

    With the contracts of DeepSquare 1.2, the filter selects the claims of all providers.
    """
    other_provider = chain.operator
    send(chain, other_provider, Register(hardware=HARDWARE, prices=PRICES, labels=()))
    chain.as_admin.approve_provider(other_provider.address)
    number, other_number = grid.request("script-1"), grid.request("script-2")
    grid.match(number)
    other_job = grid.job(other_number)
    match = Match(job_key=other_job.job_key, provider=other_provider.address)
    send(chain, chain.operator, match)
    grid.claim()
    send(chain, other_provider, ClaimJobs(limit=1))

    ledger = ChainLedger(chain.node, chain.contracts, claims_of=grid.provider)
    events = ledger.events(first=0, end=ledger.head())

    claims = [(ChainEventKind.JOB_CLAIMED, number, grid.provider)]
    if not expected.has_own_events:
        claims.append((ChainEventKind.JOB_CLAIMED, other_number, other_provider.address))
    assert [(event.kind, event.job_id.number, event.provider) for event in events] == claims


def send(chain, wallet, call):
    """Send a contract call in a transaction of the wallet, without an outbox."""
    payload = encode([call], chain.contracts)
    sender = DirectSender(chain.node, wallet)
    sender.transact(payload.to, payload.data, name=type(call).__name__)


@on_all
def test_first_block_above_the_head_is_an_error(chain):
    """The error is raised at once, so that no service waits silently for that block."""
    newest = int(chain.node.ask("eth_blockNumber"), 16)
    settings = config.Chain(
        rpc_url=chain.anvil.url,
        chain_id=chain.contracts.chain_id,
        contract=chain.addresses["MetaScheduler"],
        confirmations=1,
        first_block=newest,
    )

    opened_chain = open_chain(settings)
    opened_chain.node.close()
    assert opened_chain.first_block == newest
    with pytest.raises(ChainUnavailable, match=f"first_block is {newest + 1}"):
        open_chain(settings.model_copy(update={"first_block": newest + 1}))
