# SPDX-License-Identifier: Apache-2.0
"""How a node's endpoint is asked, and which errors its faults become.

The errors and the logs do not contain the URL of the endpoint, because it may contain an API key
or a password.
"""

from __future__ import annotations

import json
import logging
import ssl
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.fakes.certificates import Authority
from tests.fakes.rpc_endpoint import RpcEndpoint, batch_answer

from gridstead import config
from gridstead.adapters.chain.node import Node, RpcError, to_block
from gridstead.domain.jobs.job import Block
from gridstead.errors import ChainUnavailable, ConfigError
from gridstead.wiring.chain import open_chain
from gridstead.wiring.loop import RECURSION_LIMIT

API_KEY = "3f9c0ffee"
USER, PASSWORD = "rpc-user", "p4ssw0rd"
BLOCK = Block(number=1, hash="0x" + "ab" * 32, timestamp=1)


@pytest.fixture
def endpoint():
    """An endpoint that answers each request with 0x7."""
    server = RpcEndpoint()
    yield server
    server.close()


@pytest.fixture
def open_node():
    """Return a function that opens a node. The node is closed after the test."""
    nodes = []

    def open_(url, **options):
        nodes.append(Node(url, **options))
        return nodes[-1]

    yield open_
    for node in nodes:
        node.close()


@pytest.fixture
def node(endpoint, open_node):
    """A node of the endpoint. The URL has a user, a password and an API key."""
    return open_node(f"http://{USER}:{PASSWORD}@{endpoint.address}/{API_KEY}")


def unavailable_error(node):
    """Return the error of a request that the node cannot answer. Check that no text has the URL."""
    with pytest.raises(ChainUnavailable) as failure:
        node.ask("eth_chainId")
    printed_error = "".join(traceback.format_exception(failure.value))
    for text in (str(failure.value), failure.value.detail, printed_error):
        assert API_KEY not in text
        assert PASSWORD not in text
    return failure.value


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        (429, "the node answers 429 Too Many Requests"),
        (401, "the node answers 401 Unauthorized"),
        (503, "the node answers 503 Service Unavailable"),
    ],
)
def test_http_error_is_reported_without_the_url(endpoint, node, status, detail):
    endpoint.status = status

    assert unavailable_error(node).detail == detail


def test_refused_connection_is_reported_without_the_url(open_node):
    error = unavailable_error(open_node(f"http://{USER}:{PASSWORD}@127.0.0.1:9/{API_KEY}"))

    assert error.detail.startswith("ConnectionError: ")
    assert "Connection refused" in error.detail


def test_late_answer_is_reported_without_the_url(endpoint, open_node):
    may_answer = threading.Event()

    def answer_late(requests):
        may_answer.wait(60)
        return batch_answer(requests)

    endpoint.answer = answer_late
    node = open_node(f"http://{USER}:{PASSWORD}@{endpoint.address}/{API_KEY}", timeout_s=0.05)

    error = unavailable_error(node)
    may_answer.set()

    assert error.detail.startswith("ReadTimeout: ")


@pytest.mark.parametrize("url", [f"http://[{API_KEY}", f"http://a:b:{API_KEY}", f"ftp://{API_KEY}"])
def test_invalid_url_is_reported_without_the_url(open_node, url):
    assert unavailable_error(open_node(url)).detail == "invalid URL"


def test_unknown_certificate_is_refused_without_the_url(open_node, tmp_path, monkeypatch):
    """The environment cannot replace the CAs."""
    authority = Authority(tmp_path)
    files = authority.issue("node")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.certificate))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    endpoint = RpcEndpoint(context)
    try:
        error = unavailable_error(open_node(f"{endpoint.url}/{API_KEY}"))
    finally:
        endpoint.close()

    assert "certificate verify failed" in error.detail
    assert endpoint.batches == []


def test_redirect_is_not_followed(endpoint, node):
    endpoint.status = 307
    endpoint.headers = {"Location": f"/other/{API_KEY}"}

    assert unavailable_error(node).detail == "the node answers 307 Temporary Redirect"
    assert endpoint.paths == [f"/{API_KEY}"]


def test_credentials_of_the_url_are_sent(endpoint, node):
    assert node.ask("eth_chainId") == "0x7"

    assert endpoint.credentials == ["Basic cnBjLXVzZXI6cDRzc3cwcmQ="]


def test_proxies_of_the_environment_are_not_used(endpoint, node, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)

    assert node.ask("eth_chainId") == "0x7"


def test_url_is_not_logged(endpoint, node, caplog):
    endpoint.status = 503
    with caplog.at_level(logging.INFO):
        unavailable_error(node)

    assert API_KEY not in caplog.text
    assert PASSWORD not in caplog.text


# What web3.py must not do


def test_web3_repeats_no_request(endpoint, node):
    endpoint.status = 503
    unavailable_error(node)

    assert len(endpoint.batches) == 1
    assert node._provider.exception_retry_configuration is None


def test_web3_caches_no_answer(endpoint, node):
    """By default web3.py may cache the chain id, and the block of a height."""
    for result in ("0x7", "0x8"):
        endpoint.answer = lambda requests, result=result: batch_answer(requests, result)
        assert node.ask("eth_chainId") == result
        assert node.ask("eth_getBlockByNumber", "0x1", False) == result

    assert not node._provider.cache_allowed_requests
    assert len(node._provider._request_cache.items()) == 0


def test_web3_changes_neither_requests_nor_answers(endpoint, node):
    """web3.py's formatters would check the address, and turn the numbers into integers."""
    block = {"number": "0x10", "hash": BLOCK.hash, "extraData": "0x" + "00" * 200, "x": None}
    endpoint.answer = lambda requests: batch_answer(requests, block)
    parameters = ["0x" + "ab" * 20, {"blockHash": BLOCK.hash, "requireCanonical": True}]

    assert node.ask("eth_getBalance", *parameters) == block
    ((request,),) = endpoint.batches
    assert request == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "eth_getBalance",
        "params": parameters,
    }


# Batches


def test_requests_are_sent_in_batches_of_one_hundred(endpoint, node):
    numbers = range(250)
    endpoint.answer = lambda requests: json.dumps(
        [{"id": request["id"], "result": request["params"][0]} for request in requests]
    ).encode()

    assert node.batch([("eth_x", [number]) for number in numbers]) == list(numbers)
    assert list(map(len, endpoint.batches)) == [100, 100, 50]


def test_answers_are_returned_in_the_order_of_the_requests(endpoint, node):
    endpoint.answer = lambda requests: json.dumps(
        [{"id": request["id"], "result": request["params"][0]} for request in reversed(requests)]
    ).encode()

    assert node.batch([("eth_x", [number]) for number in range(20)]) == list(range(20))


def test_threads_get_the_answers_to_their_own_requests(endpoint, node):
    endpoint.answer = lambda requests: json.dumps(
        [{"id": request["id"], "result": request["params"][0]} for request in requests]
    ).encode()

    def ask(number):
        return node.batch([("eth_x", [number]), ("eth_x", [-number])])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(40))) == [[number, -number] for number in range(40)]


def test_connections_of_many_threads_are_kept(endpoint, node, caplog):
    """urllib3 logs a warning for each connection that its pool does not keep."""
    all_requests = threading.Barrier(30, timeout=60)

    def answer_together(requests):
        all_requests.wait()
        return batch_answer(requests)

    endpoint.answer = answer_together
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(node.ask, ["eth_chainId"] * 30))

    assert answers == ["0x7"] * 30
    assert caplog.text == ""


def test_request_is_sent_again_if_the_server_closes_the_idle_connection(endpoint, node):
    assert node.ask("eth_chainId") == "0x7"
    bodies = iter([None])
    endpoint.answer = lambda requests: next(bodies, batch_answer(requests))

    assert node.ask("eth_chainId") == "0x7"
    assert len(endpoint.batches) == 3


def test_request_is_sent_again_only_once(endpoint, node):
    endpoint.answer = lambda _: None

    assert "Remote end closed connection" in unavailable_error(node).detail
    assert len(endpoint.batches) == 2


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"<html>", "JSONDecodeError: "),
        (b"\xff", "UnicodeDecodeError: "),
        (b'{"error": {"code": 1, "message": "no batches"}}', "not a batch answer: {'error'"),
        (b'"0x7"', "not a batch answer: 0x7"),
        (b"null", "not a batch answer: None"),
        (b"[7]", "not a batch answer: [7]"),
        (b'[{"result": "0x7"}]', "not a batch answer: [{'result'"),
        (b'[{"id": "1", "result": "0x7"}]', "not a batch answer: [{'id'"),
        (b"[]", "an answer is missing from the batch"),
        (b'[{"id": 2, "result": "0x7"}]', "an answer is missing from the batch"),
        (b'[{"id": 1}, {"id": 1}]', "an answer is missing from the batch"),
    ],
)
def test_answer_that_does_not_match_the_batch_is_unavailable(endpoint, node, body, detail):
    endpoint.answer = lambda _: body

    assert detail in unavailable_error(node).detail


def test_deeply_nested_answer_is_unavailable_in_a_service(endpoint, node):
    """A library beneath web3.py raises Python's limit. Services reset it, in ``wiring.loop``."""
    endpoint.answer = lambda _: b"[" * 10_000
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(RECURSION_LIMIT)
    try:
        error = unavailable_error(node)
    finally:
        sys.setrecursionlimit(limit)

    assert error.detail.startswith("RecursionError: ")


@pytest.mark.parametrize(
    ("error", "code", "message", "data"),
    [
        ({"code": 3, "message": "execution reverted", "data": "0xab"}, 3, None, "0xab"),
        ({"code": 3, "message": "x", "data": {"data": "0xab"}}, 3, None, "0xab"),
        ({"code": -32015, "message": "x", "data": "Reverted 0xab"}, -32015, None, "0xab"),
        ({"code": 3, "message": "x", "data": "0x"}, 3, None, ""),
        ({"code": 3, "message": "x", "data": "0xabc"}, 3, None, ""),
        ({"code": 3, "message": "x", "data": "0xyz"}, 3, None, ""),
        ({"code": 3, "message": "x", "data": 7}, 3, None, ""),
        ({"code": "3", "message": None}, 0, "None", ""),
        ("overloaded", 0, "overloaded", ""),
        ({}, 0, "", ""),
    ],
)
def test_errors_in_the_formats_of_several_nodes_are_read(
    endpoint, node, error, code, message, data
):
    endpoint.answer = lambda _: json.dumps([{"id": 1, "error": error}]).encode()

    (answer,) = node.batch([("eth_call", [])])

    expected_message = error["message"] if message is None else message
    assert answer == RpcError(code=code, message=expected_message, data=data)


@pytest.mark.parametrize("result", [None, 7, "0xabc", {"data": "0x"}])
def test_result_of_a_view_that_is_not_bytes_is_unavailable(endpoint, node, result):
    endpoint.answer = lambda requests: batch_answer(requests, result)

    with pytest.raises(ChainUnavailable, match="not hexadecimal digits"):
        node.read([{"to": "0x", "data": "0x"}], at_block=BLOCK)


@pytest.mark.parametrize("answer", [None, "0x7", {}, {"number": 7, "hash": "0x", "timestamp": 7}])
def test_answer_that_is_not_a_block_is_unavailable(answer):
    with pytest.raises(ChainUnavailable, match="not a block"):
        to_block(answer)


def test_endpoint_of_another_chain_is_reported_without_its_url(endpoint):
    settings = config.Chain(
        rpc_url=f"{endpoint.url}/{API_KEY}", chain_id=8, contract=f"0x{'12' * 20}", confirmations=1
    )

    with pytest.raises(ConfigError) as refusal:
        open_chain(settings)

    assert str(refusal.value).startswith("chain.rpc_url serves chain 7")
    for text in (str(refusal.value), refusal.value.detail, refusal.value.hint):
        assert API_KEY not in text
