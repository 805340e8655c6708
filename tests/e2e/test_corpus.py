# SPDX-License-Identifier: Apache-2.0
"""Files of the corpus as paid jobs: those that need no network, no container and no simulation.

The unit tests run every file on a simulated node. These tests show that the same files end in the
same way in Slurm.
"""

from __future__ import annotations

import pytest
from tests.e2e import many_customers
from tests.unit.workflow.corpus import FILES, check, expectation

from gridstead.workflow.render.context import all_steps

pytestmark = pytest.mark.steps

WITH_NETWORK = ("network-options-on-host",)  # reads a file of another site
MAX_MEMORY_MB = 1100  # of a job; several jobs must fit into the nodes of the lab at the same time


def can_run_on_the_lab(file):
    """Return whether a file needs only what the lab's nodes have."""
    expected, workflow = expectation(file), check(file).workflow
    resources = workflow.resources
    memory_mb = resources.tasks * resources.cpus_per_task * resources.mem_per_cpu
    if expected.programs or expected.without or workflow.input or workflow.output:
        return False
    for step in all_steps(workflow.steps):
        if step.use or (step.run and step.run.container):
            return False
    return memory_mb <= MAX_MEMORY_MB


NAMES = [file.stem for file in FILES if file.stem not in WITH_NETWORK and can_run_on_the_lab(file)]


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("corpus")


@pytest.fixture(scope="module")
def submitted_jobs(customer):
    """Submit all jobs and return their numbers by the name of the file."""
    workflows = {}
    for file in FILES:
        if file.stem in NAMES:
            workflows[file.stem] = check(file).workflow.to_graphql()
    return many_customers.submit_named(customer, workflows)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_the_corpus_ends_as_on_a_simulated_node(grid, customer, submitted_jobs, name):
    (file,) = [file for file in FILES if file.stem == name]
    exit_code = expectation(file).ends
    state = "FAILED" if exit_code else "FINISHED"

    job = grid.wait(customer, submitted_jobs[name], state)

    assert job["exit_code"] == exit_code
