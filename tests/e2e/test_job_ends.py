# SPDX-License-Identifier: Apache-2.0
"""Each way a job can end: the right state, exit code and money. Jobs that do not disturb each other run together."""

import pytest


@pytest.fixture(scope="module")
def someone(grid):
    return grid.customer("ends")


@pytest.fixture(scope="module")
def started(grid, someone):
    """Submit the jobs that may run side by side and return their numbers."""
    return {
        # 100 credits pay for one minute of 100 CPU threads.
        "over its time": grid.submit(someone, "sleep 600", tasks=2, cpus=50, memory_mb=32, credits_=100),
        "cancelled": grid.submit(someone, "sleep 300"),
        "exits 3": grid.submit(someone, "sleep 2; exit 3"),
        "too much memory": grid.submit(someone, "python3 -c 'x = bytearray(400 << 20)'", memory_mb=64),
    }


def test_a_job_cancelled_while_it_runs_is_billed_for_what_ran(grid, someone, started):
    number = started["cancelled"]
    grid.wait(someone, number, "RUNNING")
    someone.run("job", "cancel", str(number))
    grid.wait(someone, number, "CANCELLED")

    assert grid.check_money(someone, number)["cost_wei"] > 0


def test_a_job_that_exits_3_has_failed_with_3(grid, someone, started):
    grid.wait(someone, started["exits 3"], "FAILED")

    assert grid.check_money(someone, started["exits 3"])["exit_code"] == 3


def test_a_job_that_uses_too_much_memory_has_failed(grid, someone, started):
    job = grid.wait(someone, started["too much memory"], "FAILED")

    # The step is what the kernel ends; the batch script fails with it, and which of the two Slurm names is a race.
    assert job["last_error"] in {"Slurm says OUT_OF_MEMORY", "Slurm says FAILED"}
    grid.check_money(someone, started["too much memory"])


def test_a_job_over_its_paid_time_is_out_of_credits(grid, lab, someone, started):
    number = started["over its time"]
    job = grid.wait(someone, number, "OUT_OF_CREDITS", timeout=180)

    paid_seconds = job["lock_wei"] * 60 // job["price_per_min_wei"]
    elapsed = int(lab.wait_ended(job["id"])[-1]["elapsedraw"])
    grid.check_money(someone, number, seconds=min(elapsed, paid_seconds))


def test_a_job_cancelled_while_it_waits_in_slurm_costs_nothing(grid, lab, someone):
    whole_cluster = {"tasks": 2, "cpus": 64, "memory_mb": 32, "credits_": 1000}
    blocker = grid.submit(someone, "sleep 60", **whole_cluster)
    grid.wait(someone, blocker, "RUNNING")
    number = grid.submit(someone, "sleep 300", **whole_cluster)
    grid.wait(someone, number, "SCHEDULED")
    lab.sh(
        "controller", f"for i in $(seq 60); do squeue -h -n 0x{number:064x} | grep . && exit; sleep 0.5; done; exit 1"
    )
    someone.run("job", "cancel", str(number))
    someone.run("job", "cancel", str(blocker))
    grid.wait(someone, number, "CANCELLED")
    grid.wait(someone, blocker, "CANCELLED")

    assert grid.check_money(someone, number)["cost_wei"] == 0
    (record,) = lab.wait_ended(f"0x{number:064x}")
    assert record["state"].startswith("CANCELLED")


def test_a_job_whose_host_dies_is_panicked_and_costs_nothing(grid, lab, someone):
    number = grid.submit(someone, "sleep 300")
    grid.wait(someone, number, "RUNNING")
    host = lab.sh("controller", f"squeue -h -n 0x{number:064x} -o %N").strip()
    lab.tool("kill", host)
    try:
        grid.wait(someone, number, "PANICKED", timeout=180)
    finally:
        lab.tool("start", host)
    lab.sh(
        "controller",
        f"for i in $(seq 240); do sinfo -h -n {host} -o %t | grep -qx idle && exit; sleep 0.5; done; exit 1",
    )

    assert grid.check_money(someone, number)["cost_wei"] == 0
