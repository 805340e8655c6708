# SPDX-License-Identifier: Apache-2.0
"""No call costs more gas than contracts/gas.md says, and a whole life stays within the bars.

``make gas`` measures anew and writes the page (by GRIDSTEAD_GAS=write).
"""

import os

import pytest
from tests.contracts.gas_grid import GasGrid, measure_batches, measure_life, measure_others
from tests.contracts.gas_table import BARS, parse, render

GROWTH = 1.02


@pytest.fixture(scope="module")
def figures(chain, deploy, artifact):
    def create(name, *arguments):
        document = artifact(name)
        return deploy(document["abi"], document["bytecode"], *arguments)

    grid = GasGrid(chain, create)
    first, later = measure_life(grid)
    return {
        "first": first,
        "later": later,
        "batched": measure_batches(grid),
        "others": measure_others(grid),
    }


@pytest.fixture(scope="module")
def measured(figures, contracts_dir):
    page = render(**figures)
    if os.environ.get("GRIDSTEAD_GAS") == "write":
        print(f"\n{page}")
        (contracts_dir / "gas.md").write_text(page)
    return parse(page)


@pytest.mark.parametrize("kind", BARS)
def test_a_later_job_of_a_known_customer_stays_within_the_bar(figures, kind):
    assert sum(figures[kind].values()) <= BARS[kind]


def test_no_figure_grows_unnoticed(measured, contracts_dir):
    """A growth that is wanted goes into the page by `make gas`."""
    written = parse((contracts_dir / "gas.md").read_text())

    assert written.keys() == measured.keys()
    grown = {
        row: (written[row], figures)
        for row, figures in measured.items()
        if any(now > before * GROWTH for before, now in zip(written[row], figures, strict=True))
    }
    assert grown == {}
