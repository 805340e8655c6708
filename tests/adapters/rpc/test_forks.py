# SPDX-License-Identifier: Apache-2.0
"""A process that speaks gRPC starts other programs: by a fork in tests, by vfork in the services."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import pytest

PAIRS = 4  # of channel and server
STARTS = 200


@pytest.fixture
def talk():
    """Connections over which gRPC watches for what may come."""
    with ExitStack() as ending:
        for _ in range(PAIRS):
            server = grpc.server(ThreadPoolExecutor(1))
            port = server.add_insecure_port("127.0.0.1:0")
            server.start()
            ending.callback(lambda server=server: server.stop(grace=None).wait())
            channel = ending.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
            grpc.channel_ready_future(channel).result(timeout=30)
        yield


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize(
    "how", [{}, {"user": os.geteuid()}], ids=["vfork", "fork"]
)  # a user makes Python fork
def test_programs_start_whole(how):
    ended = [subprocess.run(["true"], check=False, **how).returncode for _ in range(STARTS)]

    assert ended == [0] * STARTS
