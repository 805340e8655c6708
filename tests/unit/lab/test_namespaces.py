# SPDX-License-Identifier: Apache-2.0
"""The CPU on which a host is started."""

import os
import subprocess
import sys

import pytest

from gridstead_lab import namespaces


@pytest.mark.parametrize(
    ("ids", "expected"),
    [({0: 7}, 0), ({0: 3357, 1: 7197}, 0), ({0: 12289, 1: 7197, 2: 16385}, 1)],
)
def test_a_host_starts_on_the_cpu_with_the_lowest_namespace_ids(ids, expected):
    """``ids`` contains, by CPU, the id of a namespace that was made on this CPU."""
    assert namespaces.cpu_of_lowest(ids) == expected


def test_a_started_host_may_use_every_cpu():
    cpus = sorted(os.sched_getaffinity(0))

    assert namespaces.payload_cpus() == ",".join(map(str, cpus))


@pytest.mark.skipif(os.geteuid() != 0, reason="making a mount namespace needs root")
def test_the_program_prints_the_ids_of_all_cpus_or_nothing():
    result = subprocess.run(
        [sys.executable, "-I", namespaces.__file__], capture_output=True, text=True, check=True
    )

    measured_cpus = {int(line.split()[0]) for line in result.stdout.splitlines()}
    assert measured_cpus in (set(), os.sched_getaffinity(0))
