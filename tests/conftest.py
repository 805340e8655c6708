# SPDX-License-Identifier: Apache-2.0
"""The settings of all tests: the order of tests, the examples of hypothesis, gRPC's fork support.

Tests run in random order, except in the folders of FOLDERS_IN_FILE_ORDER. The seed is printed at
the end of a run. Option ``--random-order-seed=SEED`` repeats the order of that run. Option
``--random-order-bucket=none`` runs the tests in the order of the files.

Hypothesis generates the same examples in every run, so a failure can be repeated.
``HYPOTHESIS_PROFILE=explore`` generates new examples. Examples have no deadline, because their
duration depends on the machine.

gRPC's fork support is disabled. A test process uses gRPC and starts programs by fork. By default
gRPC restarts its poller in the child process, and the poller may crash the child before exec
(grpc/grpc#43055). No child of a test process uses gRPC. The services start programs with vfork,
which gRPC's fork support ignores.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"  # must be set before gRPC is imported

settings.register_profile("repeat", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

# Tests in these folders use the hosts of a lab. The hosts retain their state between tests, so each
# test starts with the state that the previous test left.
FOLDERS_IN_FILE_ORDER = tuple(Path(__file__).parent / folder for folder in ("e2e", "lab"))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Run the tests of FOLDERS_IN_FILE_ORDER last, in the order of the files."""
    positions = {}
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in FOLDERS_IN_FILE_ORDER):
            positions[item] = len(positions)
    result = yield  # here, other plugins put the tests in random order
    # The sort is stable, so the other tests retain their random order.
    items.sort(key=lambda item: positions.get(item, -1))
    return result


def pytest_terminal_summary(terminalreporter, config):
    """Print the seed at the end. pytest's header contains the seed, but a quiet run omits it."""
    seed = config.getoption("random_order_seed").removeprefix("default:")
    terminalreporter.write_line(f"order of the tests: --random-order-seed={seed}")
