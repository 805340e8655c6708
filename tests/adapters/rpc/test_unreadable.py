# SPDX-License-Identifier: Apache-2.0
"""Bytes that are not a message: the sender gets an error, and nothing is logged."""

import logging

import grpc
import pytest
import structlog

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.logs import set_up

NO_MESSAGE = b"\xff" * 8


@pytest.fixture(autouse=True)
def logs():
    """Set up logging as services do, and restore the previous state afterwards."""
    loggers = [logging.getLogger(name) for name in ("grpc._common", "grpc._cython.cygrpc")]
    before = [list(logger.filters) for logger in loggers]
    configuration = structlog.get_config()
    set_up("info")
    # A logger that is cached would keep this configuration in the tests that follow.
    structlog.configure(**structlog.get_config() | {"cache_logger_on_first_use": False})
    yield
    structlog.configure(**configuration)
    for logger, filters in zip(loggers, before, strict=True):
        logger.filters = filters


def refusal(peer, method, *, stream=False):
    """Return the status of a call whose request is not a message."""
    with open_channel(peer) as channel:
        call, sent = (
            (channel.stream_unary, iter([NO_MESSAGE]))
            if stream
            else (channel.unary_unary, NO_MESSAGE)
        )
        with pytest.raises(grpc.RpcError) as refused:
            call(method)(sent, timeout=10)
    return refused.value.code().name


def test_threaded_server_answers_the_caller_and_logs_nothing(servers, ca, caplog):
    assert (
        refusal(GrpcPeer(address=servers.address, ca=ca), "/sbatchapi.v1alpha1.SBatchAPI/GetSBatch")
        == "INTERNAL"
    )
    assert caplog.records == []


def test_asynchronous_server_answers_the_caller_and_logs_nothing(peer, caplog):
    assert refusal(peer, "/logger.v1alpha1.LoggerAPI/Write", stream=True) == "UNKNOWN"
    assert caplog.records == []


def test_errors_of_our_code_are_still_logged(caplog):
    for name in ("grpc._common", "grpc._cython.cygrpc"):
        logging.getLogger(name).error("failed", exc_info=RuntimeError("ours"))

    assert [record.message for record in caplog.records] == ["failed"] * 2
