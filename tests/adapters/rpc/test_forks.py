# SPDX-License-Identifier: Apache-2.0
"""A process with open gRPC channels can start programs, both with fork and with vfork."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import pytest

CHANNEL_COUNT = 4
PROGRAM_COUNT = 200


@pytest.fixture
def open_channels():
    """Keep channels open, so that threads of gRPC run while the test starts programs."""
    with ExitStack() as stack:
        for _ in range(CHANNEL_COUNT):
            server = grpc.server(ThreadPoolExecutor(1))
            port = server.add_insecure_port("127.0.0.1:0")
            server.start()
            stack.callback(lambda server=server: server.stop(grace=None).wait())
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
            grpc.channel_ready_future(channel).result(timeout=30)
        yield


# Module subprocess uses vfork by default. It uses fork if the caller sets the program's user.
@pytest.mark.usefixtures("open_channels")
@pytest.mark.parametrize("options", [{}, {"user": os.geteuid()}], ids=["vfork", "fork"])
def test_every_program_exits_with_success(options):
    for _ in range(PROGRAM_COUNT):
        subprocess.run(["true"], check=True, **options)
