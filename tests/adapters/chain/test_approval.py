# SPDX-License-Identifier: Apache-2.0
"""The approval of a provider names its record. A record that replaces it is not approved."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest
from tests.adapters.chain.generations import on_all
from tests.adapters.chain.grids import RealGrid
from tests.adapters.chain.racing import RacingNode

from gridstead.adapters.chain.customer import Customer
from gridstead.domain.jobs.job import Label
from gridstead.errors import TransactionReverted

CLAIMED_LABEL = Label(key="certified", value="yes")


def provider_of(grid):
    """Return the provider's record at the newest block."""
    return grid.ledger.providers([grid.provider], at_block=grid.ledger.head())[grid.provider]


@on_all
def test_record_that_is_replaced_before_the_approval_is_not_approved(chain, expected):
    grid = RealGrid(chain)
    grid.register()
    replace_record = partial(grid.register, [CLAIMED_LABEL])

    with closing(RacingNode(chain.anvil.url, replace_record)) as node:
        administrator = Customer(node, chain.contracts, chain.admin)
        if expected.approves_records:
            with pytest.raises(TransactionReverted):
                administrator.approve_provider(grid.provider)
        else:
            administrator.approve_provider(grid.provider)

    assert provider_of(grid).is_joined is not expected.approves_records


def test_unchanged_record_is_approved(chain):
    grid = RealGrid(chain)
    grid.register([CLAIMED_LABEL])

    chain.as_admin.approve_provider(grid.provider)

    provider = provider_of(grid)
    assert (provider.is_joined, provider.labels) == (True, (CLAIMED_LABEL,))
