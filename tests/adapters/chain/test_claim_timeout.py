# SPDX-License-Identifier: Apache-2.0
"""The claim timeout of a new set: seconds, which the deployment converts to blocks."""

from __future__ import annotations

import pytest
from tests.adapters.chain.deploying import STEP_COUNT

from gridstead.adapters.chain.node import Node
from gridstead.domain.contracts.setup import INITIAL_CLAIM_BLOCKS
from gridstead.errors import InvalidInput

BLOCKS = 1200  # more than the deployment measures


def mine(site, block_time_s):
    """Mine blocks, each of them some seconds after the last one."""
    site.chain.anvil.mine_at_intervals(BLOCKS, block_time_s)


def claim_blocks(site, addresses):
    return site.inspect(addresses).constants["claimJobTimeout"]


@pytest.mark.parametrize(("block_time_s", "blocks"), [(2, 60), (7, 18)])
def test_deployment_sets_the_blocks_that_make_the_claim_timeout(site, block_time_s, blocks):
    mine(site, block_time_s)

    addresses = site.run(claim_timeout_s=120)

    # The few blocks of the deployment itself have other times.
    assert claim_blocks(site, addresses) == pytest.approx(blocks, abs=1)
    assert site.next_nonce() == STEP_COUNT + 1


def test_claim_timeout_is_not_set_again(site):
    mine(site, 2)
    addresses = site.run(claim_timeout_s=120)
    blocks = claim_blocks(site, addresses)
    mine(site, 5)

    assert site.plan_steps(claim_timeout_s=60) == ()
    site.run(claim_timeout_s=60)

    assert claim_blocks(site, addresses) == blocks


def test_claim_timeout_out_of_bounds_is_refused(site):
    mine(site, 1)

    for deploy in (site.plan_steps, site.run):
        with pytest.raises(InvalidInput, match="invalid claimJobTimeout"):
            deploy(claim_timeout_s=2_000_000)
    assert site.next_nonce() == 0


def test_young_chain_keeps_the_initial_claim_timeout(site):
    class YoungNode(Node):
        """A node whose newest block seems to be block 1."""

        def batch(self, requests):
            answers = super().batch(requests)
            for index, (method, parameters) in enumerate(requests):
                if method == "eth_getBlockByNumber" and parameters[0] == "latest":
                    answers[index] = answers[index] | {"timestamp": hex(0)}
            return answers

    addresses = site.run(site.node(YoungNode), claim_timeout_s=120)

    assert claim_blocks(site, addresses) == INITIAL_CLAIM_BLOCKS
    assert "too young to measure its block time" in site.reported[-1]
