# SPDX-License-Identifier: Apache-2.0
"""Who has the jobs."""

import contextlib

import pytest
from tests.e2e import crowd


@pytest.fixture(scope="session")
def customer(grid):
    return grid.customer("rotating", credits_=10_000)


@pytest.fixture(scope="session")
def member(customer):
    with contextlib.closing(crowd.join(customer)) as one:
        yield one
