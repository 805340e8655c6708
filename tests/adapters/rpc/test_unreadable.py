# SPDX-License-Identifier: Apache-2.0
"""Requests with malformed bytes. The caller gets an error, and the server logs nothing."""

import logging

import grpc
import pytest
import structlog

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.logs import set_up

MALFORMED_MESSAGE = b"\xff" * 8


@pytest.fixture(autouse=True)
def logs():
    """Set up logging as the services do, and restore the previous settings after the test."""
    loggers = [logging.getLogger(name) for name in ("grpc._common", "grpc._cython.cygrpc")]
    previous_filters = [list(logger.filters) for logger in loggers]
    configuration = structlog.get_config()
    set_up("info")
    # Turn the cache off: a cached logger would keep this configuration in later tests.
    structlog.configure(**structlog.get_config() | {"cache_logger_on_first_use": False})
    yield
    structlog.configure(**configuration)
    for logger, filters in zip(loggers, previous_filters, strict=True):
        logger.filters = filters


def refusal_status(method, request):
    """Return the name of the status with which a call is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        method(request, timeout=10)
    return caught.value.code().name


def test_threaded_server_returns_an_error_and_logs_nothing(servers, ca, caplog):
    with open_channel(GrpcPeer(address=servers.address, ca=ca)) as channel:
        get_sbatch = channel.unary_unary("/sbatchapi.v1alpha1.SBatchAPI/GetSBatch")

        assert refusal_status(get_sbatch, MALFORMED_MESSAGE) == "INTERNAL"
    assert caplog.records == []


def test_asynchronous_server_returns_an_error_and_logs_nothing(peer, caplog):
    with open_channel(peer) as channel:
        write = channel.stream_unary("/logger.v1alpha1.LoggerAPI/Write")

        assert refusal_status(write, iter([MALFORMED_MESSAGE])) == "UNKNOWN"
    assert caplog.records == []


def test_error_of_our_code_is_logged(caplog):
    for name in ("grpc._common", "grpc._cython.cygrpc"):
        logging.getLogger(name).error("failed", exc_info=RuntimeError("ours"))

    assert [record.message for record in caplog.records] == ["failed"] * 2
