# SPDX-License-Identifier: Apache-2.0
"""What all tests have in common: their order, their random examples, and processes that may start
others.

Tests run in random order, except in the folders of WRITTEN_ORDER. The last lines of a run print the
seed: ``--random-order-seed=SEED`` repeats its order, ``--random-order-bucket=none`` runs the tests
as they are written.

The examples are the same in every run, so what failed fails again; ``HYPOTHESIS_PROFILE=explore``
makes new ones. None has a deadline: how long one takes is the machine's.

A test process speaks gRPC to itself and starts servers. By default gRPC starts its poller again in
each copy that a fork makes, and the poller may crash the copy before that becomes the program it
was made for (grpc/grpc#43055). No copy of a test process uses gRPC, so it is told to leave them
alone. The services need no such word: what they start they start with vfork, of which gRPC sees
nothing.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"  # read when gRPC is imported

settings.register_profile("repeat", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

# The hosts of a lab keep their state from test to test: a later test goes on where an earlier one
# ended.
WRITTEN_ORDER = tuple(Path(__file__).parent / folder for folder in ("e2e", "lab"))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Run the tests of WRITTEN_ORDER last, as they are written."""
    written = [item for item in items if any(map(item.path.is_relative_to, WRITTEN_ORDER))]
    places = {item: place for place, item in enumerate(written)}
    result = yield
    items.sort(
        key=lambda item: places.get(item, -1)
    )  # stable, so the others keep their random order
    return result


def pytest_terminal_summary(terminalreporter, config):
    """Print the seed, which pytest's header does not show in a quiet run."""
    seed = config.getoption("random_order_seed").removeprefix("default:")
    terminalreporter.write_line(f"order of the tests: --random-order-seed={seed}")
