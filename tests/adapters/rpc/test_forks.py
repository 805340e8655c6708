# SPDX-License-Identifier: Apache-2.0
"""A process with open gRPC channels can start programs, by fork (tests) and vfork (services)."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import pytest

PAIRS = 4  # of a channel and a server
STARTS = 200


@pytest.fixture
def open_channels():
    """Keep channels open, which gRPC's threads poll."""
    with ExitStack() as stack:
        for _ in range(PAIRS):
            server = grpc.server(ThreadPoolExecutor(1))
            port = server.add_insecure_port("127.0.0.1:0")
            server.start()
            stack.callback(lambda server=server: server.stop(grace=None).wait())
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
            grpc.channel_ready_future(channel).result(timeout=30)
        yield


@pytest.mark.usefixtures("open_channels")
@pytest.mark.parametrize(
    "options", [{}, {"user": os.geteuid()}], ids=["vfork", "fork"]
)  # with a user, Python forks
def test_every_program_exits_with_success(options):
    exit_codes = [
        subprocess.run(["true"], check=False, **options).returncode for _ in range(STARTS)
    ]

    assert exit_codes == [0] * STARTS
