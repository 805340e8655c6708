# SPDX-License-Identifier: Apache-2.0
"""The scenario's lab and the grid on it, as the tests of the whole grid have them."""

import contextlib

import pytest
from tests.e2e import crowd
from tests.e2e.conftest import Grid, Lab, people


@pytest.fixture(scope="session")
def lab():
    return Lab(people.lab_grid().folder)


@pytest.fixture(scope="session")
def grid(lab):
    with contextlib.closing(Grid(lab)) as one:
        yield one


@pytest.fixture(scope="session")
def customer(grid):
    return grid.customer("rotating", credits_=10_000)


@pytest.fixture(scope="session")
def member(customer):
    with contextlib.closing(crowd.join(customer)) as one:
        yield one
