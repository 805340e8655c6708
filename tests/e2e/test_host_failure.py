# SPDX-License-Identifier: Apache-2.0
"""The failure of a compute host while a paid job runs on the host."""

import pytest
from tests.e2e.conftest import slurm_job_name


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("host-failure")


def test_a_job_whose_host_fails_is_panicked_and_costs_nothing(grid, lab, customer):
    number = grid.submit(customer, "sleep 300")
    grid.wait(customer, number, "RUNNING")
    host = lab.sh("controller", f"squeue -h -n {slurm_job_name(number)} -o %N").strip()
    lab.tool("kill", host)
    try:
        grid.wait(customer, number, "PANICKED", timeout=180)
    finally:
        lab.tool("start", host)
    is_idle = f"sinfo -h -n {host} -o %t | grep -qxE 'idle|plnd'"
    lab.sh("controller", f"for i in $(seq 240); do {is_idle} && exit; sleep 0.5; done; exit 1")

    assert grid.check_money(customer, number)["cost_wei"] == 0
