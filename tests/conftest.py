# SPDX-License-Identifier: Apache-2.0
"""The settings of all tests: their order, their hypothesis examples, and gRPC's fork support.

Tests run in random order, except in the folders of WRITTEN_ORDER. The seed is printed at the end of
a run: ``--random-order-seed=SEED`` repeats its order, ``--random-order-bucket=none`` runs the tests
in the order of the files.

The examples of hypothesis are the same in every run, so a failure can be repeated.
``HYPOTHESIS_PROFILE=explore`` generates new ones. There are no deadlines, because the time of an
example depends on the machine.

A test process uses gRPC and starts programs by fork. By default gRPC restarts its poller in the
child process, and the poller may crash the child before exec (grpc/grpc#43055). No child of a test
process uses gRPC, so its fork support is disabled. The services do not need this: they start
programs with vfork, which gRPC does not notice.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"  # read when gRPC is imported

settings.register_profile("repeat", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

# The hosts of a lab retain their state between tests: a test continues after the previous one.
WRITTEN_ORDER = tuple(Path(__file__).parent / folder for folder in ("e2e", "lab"))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Run the tests of WRITTEN_ORDER last, in the order of the files."""
    written = [item for item in items if any(map(item.path.is_relative_to, WRITTEN_ORDER))]
    positions = {item: i for i, item in enumerate(written)}
    result = yield
    # The sort is stable, so the other tests retain their random order.
    items.sort(key=lambda item: positions.get(item, -1))
    return result


def pytest_terminal_summary(terminalreporter, config):
    """Print the seed. A quiet run does not show pytest's header, which has it."""
    seed = config.getoption("random_order_seed").removeprefix("default:")
    terminalreporter.write_line(f"order of the tests: --random-order-seed={seed}")
