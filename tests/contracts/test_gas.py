# SPDX-License-Identifier: Apache-2.0
"""No call uses more gas than contracts/gas.md lists, and a whole job stays within the limits.

``make gas`` measures the gas and writes the page (with GRIDSTEAD_GAS=write).
"""

import os

import pytest
from tests.contracts.gas_grid import GasGrid, measure_batches, measure_job, measure_other_calls
from tests.contracts.gas_table import LIMITS, parse, render

MAX_GROWTH_FACTOR = 1.02


@pytest.fixture(scope="module")
def figures(chain, deploy, read_artifact):
    def create(name, *arguments):
        document = read_artifact(name)
        return deploy(document["abi"], document["bytecode"], *arguments)

    grid = GasGrid(chain, create)
    first, later = measure_job(grid)
    return {
        "first": first,
        "later": later,
        "batched": measure_batches(grid),
        "others": measure_other_calls(grid),
    }


@pytest.fixture(scope="module")
def measured_table(figures, contracts_dir):
    page = render(**figures)
    if os.environ.get("GRIDSTEAD_GAS") == "write":
        print(f"\n{page}")
        (contracts_dir / "gas.md").write_text(page)
    return parse(page)


@pytest.mark.parametrize("column", LIMITS)
def test_all_steps_of_a_job_together_stay_within_the_gas_limit(figures, column):
    assert sum(figures[column].values()) <= LIMITS[column]


def test_no_call_uses_more_gas_than_the_page_lists(measured_table, contracts_dir):
    """If more gas is acceptable, update the page with `make gas`."""
    page_table = parse((contracts_dir / "gas.md").read_text())

    assert page_table.keys() == measured_table.keys()
    increases = []
    for row, measured in measured_table.items():
        for before, now in zip(page_table[row], measured, strict=True):
            if now > before * MAX_GROWTH_FACTOR:
                increases.append((row, before, now))
    assert increases == []
