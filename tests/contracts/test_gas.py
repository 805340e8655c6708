# SPDX-License-Identifier: Apache-2.0
"""No call uses more gas than contracts/gas.md lists, and a whole job stays within the limits.

``make gas`` measures the gas and writes the page (with GRIDSTEAD_GAS=write).
"""

import os
import re

import pytest
from tests.contracts.gas_extremes import measure_extremes, request_data_sizes
from tests.contracts.gas_grid import GasGrid, measure_batches, measure_job, measure_other_calls
from tests.contracts.gas_table import LIMITS, extreme_name, parse, render

MAX_GROWTH_FACTOR = 1.02
# A floor is at least the gas of the dearest state plus a tenth, and not much more.
FLOOR_FACTORS = (1.1, 1.4)
FLOOR = re.compile(r"constant (?P<name>\w+) = (?P<gas>[\d_]+);")


@pytest.fixture(scope="module")
def new_grid(chain, deploy, read_artifact):
    """Return a function that deploys a grid without jobs."""

    def create(name, *arguments):
        document = read_artifact(name)
        return deploy(document["abi"], document["bytecode"], *arguments)

    return lambda: GasGrid(chain, create)


@pytest.fixture(scope="module")
def figures(new_grid):
    grid = new_grid()
    first, later = measure_job(grid)
    return {
        "first": first,
        "later": later,
        "batched": measure_batches(grid),
        "others": measure_other_calls(grid),
        "extremes": measure_extremes(new_grid()),
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


@pytest.fixture(scope="module")
def floors(contracts_dir):
    """Return the constants of GasFloors.sol by name."""
    source = (contracts_dir / "src" / "libraries" / "GasFloors.sol").read_text()
    return {match["name"]: int(match["gas"]) for match in FLOOR.finditer(source)}


@pytest.mark.parametrize(
    ("floor", "calls"),
    [("CANCEL", ["cancelJob"]), ("TOP_UP", ["topUpJob", "topUpJobDelegate"])],
)
def test_gas_floor_is_above_the_gas_of_the_dearest_state(floors, contracts_dir, floor, calls):
    page_table = parse((contracts_dir / "gas.md").read_text())
    dearest = max(page_table[extreme_name(call)][0] for call in calls)
    lowest_factor, highest_factor = FLOOR_FACTORS

    assert dearest * lowest_factor <= floors[floor] <= dearest * highest_factor


def test_gas_floor_of_a_request_is_above_the_gas_of_every_request(floors, new_grid, contracts_dir):
    page_table = parse((contracts_dir / "gas.md").read_text())
    lowest_factor, highest_factor = FLOOR_FACTORS

    for call, size in request_data_sizes(new_grid()).items():
        floor = floors["REQUEST"] + floors["REQUEST_PER_BYTE"] * size
        (gas,) = page_table[extreme_name(call)]
        assert gas * lowest_factor <= floor <= gas * highest_factor, call
