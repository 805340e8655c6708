# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of the lab: labels on the chain, paid jobs that come first, and killed runs."""

import json

import pytest
from tests.e2e import many_customers
from tests.e2e.conftest import wait_until

REPORTS = "/var/lib/gridstead/benchmarks"
UNIT = "gridstead-benchmarks.service"
RUN_TIMEOUT_S = 240
# Benchmarks of the lab that must succeed on every machine, with a label for each.
EXPECTED_LABELS = {
    "benchmark.suite", "benchmark.time", "compute.gflops", "cpu", "network.p2p.latency.us",
    "storage.scratch.write.bw.mibps",
}  # fmt: skip
# The states of the benchmarks' jobs that have not ended.
OPEN_STATES = "PENDING,RUNNING,COMPLETING,CONFIGURING"


def reports(lab):
    """Return the reports of the benchmarks, the oldest first."""
    names = lab.sh(lab.controller, f"cd {REPORTS}; ls | grep -E '^[0-9]+[.]json$'").split()
    documents = [lab.sh(lab.controller, f"cat {REPORTS}/{name}") for name in names]
    return list(map(json.loads, documents))


def open_jobs(lab):
    """Return the numbers of the benchmarks' jobs in Slurm that have not ended."""
    listing = lab.sh(
        lab.controller,
        f"squeue --noheader --user=gridstead-benchmarks --states={OPEN_STATES} --format=%i",
    )
    return listing.split()


def unit_state(lab):
    return lab.run(lab.controller, "systemctl", "is-active", UNIT, check=False).stdout.strip()


@pytest.fixture
def running_benchmarks(lab):
    """A run of the benchmarks that has started a Slurm job. It ends before the next test."""
    wait_until(lambda: unit_state(lab) == "inactive", timeout=RUN_TIMEOUT_S)
    lab.sh(lab.controller, f"systemctl start --no-block {UNIT}")
    wait_until(lambda: open_jobs(lab), timeout=RUN_TIMEOUT_S)
    yield
    wait_until(lambda: unit_state(lab) == "inactive", timeout=RUN_TIMEOUT_S)
    assert open_jobs(lab) == []


def test_the_labels_of_the_first_run_are_on_the_chain(lab, grid):
    first_report = reports(lab)[0]
    (provider,) = [
        provider
        for provider in json.loads(grid.admin.run("provider", "list", "--json").stdout)
        if provider["address"] == grid.provider
    ]

    assert first_report["labels"].keys() >= EXPECTED_LABELS
    assert first_report["labels"].items() <= provider["labels"].items()
    # The lab has no GPU and no Internet. Each label that is left out has a reason.
    omitted_keys = " ".join(omission["keys"] for omission in first_report["omissions"])
    assert "gpu" in omitted_keys
    assert "network.download.bw.mbps" in omitted_keys
    assert all(omission["reason"] for omission in first_report["omissions"])


def test_a_paid_job_stops_a_benchmark_that_has_its_node(lab, grid):
    """Slurm cancels the job of the benchmarks, which would take ten minutes."""
    benchmark = lab.sh(
        lab.controller,
        "runuser --user=gridstead-benchmarks -- sbatch --parsable --partition=benchmarks "
        "--nodes=2 --exclusive --chdir=/tmp --output=/dev/null --wrap='sleep 600'",
    ).strip()
    wait_until(
        lambda: lab.sh(lab.controller, f"squeue -h -j {benchmark} -t RUNNING -o %i"), timeout=60
    )
    connection = many_customers.connect(grid.customer("after-benchmarks"))

    (number,) = connection.submit([many_customers.one_step("hostname")], credits_=100)
    (job,) = connection.wait_cold([number], timeout=RUN_TIMEOUT_S).values()
    connection.close()

    assert job.state.name == "FINISHED"
    states = lab.sh(lab.controller, f"sacct -n -X -P -j {benchmark} -o state").split()
    assert states == ["PREEMPTED"]


def test_a_killed_run_is_repeated_and_leaves_no_jobs(lab, running_benchmarks):
    number = len(reports(lab))

    lab.sh(lab.controller, f"systemctl kill --signal=KILL {UNIT}")
    lab.sh(lab.controller, f"systemctl restart --no-block {UNIT}")

    wait_until(lambda: len(reports(lab)) > number, timeout=RUN_TIMEOUT_S)


def test_an_operator_can_measure_one_node_and_read_the_report(lab):
    wait_until(lambda: unit_state(lab) == "inactive", timeout=RUN_TIMEOUT_S)

    output = lab.sh(
        "control", "gridstead provider benchmark run --nodes compute1 --suite processor"
    )
    (report,) = json.loads(lab.sh("control", "gridstead provider benchmark report --json"))

    assert "details: gridstead provider benchmark report" in output
    assert report["nodes"] == ["compute1"]
    assert report["partial"] == {"nodes": ["compute1"], "suites": ["processor"]}
