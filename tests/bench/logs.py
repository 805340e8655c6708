#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the logger: throughput, delay of a follower, added time of a job, memory per stream.

The logger is a separate process with TLS on the loopback interface and encrypted logs on disk. It
acknowledges lines when they are durable. The writers are processes that send the same calls as a
job's log writer: chunks of 64 KiB, 4 MiB in a call. The exit code is 1 if a limit is missed.
"""

import argparse
import base64
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
os.chdir(CHECKOUT)
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.fakes.definitions import Wallet  # noqa: E402
from tests.fakes.logger_process import LoggerProcess, log_of  # noqa: E402
from tests.unit.workflow.node import Node, workflow  # noqa: E402

from gridstead.adapters.channel import GrpcPeer  # noqa: E402
from gridstead.adapters.logs.client import Lines, LoggerClient, LogQuery, WriteAccess  # noqa: E402
from gridstead.domain.logs.access import read_text  # noqa: E402
from gridstead.domain.logs.log import Chunk, Stream  # noqa: E402
from gridstead.proto.logger_pb2 import ReadRequest  # noqa: E402

MIB = 1024 * 1024
CHUNK_BYTES = 64 * 1024
CHUNKS_PER_CALL = 64
LINE = b"2026-11-21 01:00:00 step 1234 of 9999, loss 0.12345, 99 tokens a second, " + b"x" * 25
MIN_WRITE = 50.0  # MB/s
MAX_FOLLOW_S = 0.2
MAX_ADDED_S = 0.5
SAMPLES = 100
FOLLOWERS = 500
BROWSERS = 200
PORTAL = "https://portal.example"
JOBS = 20
ENDS = 5
CLOSED = "localhost:1"  # no process listens on this port


def chunk(sequence: int) -> Chunk:
    """Return a full chunk of lines."""
    data = b"\n".join([LINE] * (CHUNK_BYTES // (len(LINE) + 1)))
    return Chunk(
        data=data, timestamp_ns=time.time_ns(), stream=Stream.STDOUT, writer=1, sequence=sequence
    )


def write(address: str, ca: Path, access: WriteAccess, count: int) -> None:
    """Write chunks after a line on stdin. This is the main function of a writer's process."""
    client = LoggerClient(GrpcPeer(address=address, ca=ca))
    sys.stdin.readline()
    for first in range(1, count + 1, CHUNKS_PER_CALL):
        client.write(
            access,
            [chunk(n) for n in range(first, min(first + CHUNKS_PER_CALL, count + 1))],
            timeout_s=60,
        )


def throughput(logger: LoggerProcess, *, writers: int, mib: int) -> float:
    """Return the total MB/s (1e6 bytes) of several writers, each with its own log."""
    count = mib * MIB // CHUNK_BYTES
    processes = []
    for _ in range(writers):
        log = log_of(Wallet().address)
        arguments = [
            logger.peer.address,
            logger.peer.ca,
            log.owner,
            log.name,
            logger.token(log),
            str(count),
        ]
        processes.append(
            subprocess.Popen(
                [sys.executable, __file__, "--as-writer", *arguments],
                stdin=subprocess.PIPE,
                text=True,
            )
        )
    time.sleep(2 * writers)  # the writers import their modules
    started = time.monotonic()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit("bench: a writer failed")
    return writers * count * len(chunk(1).data) / 1e6 / (time.monotonic() - started)


def latency(logger: LoggerProcess) -> list[float]:
    """Return the delays until a follower receives a line, in seconds."""
    owner = Wallet()
    log = log_of(owner.address)
    client = LoggerClient(logger.peer)
    access = WriteAccess(owner=log.owner, log_name=log.name, token=logger.token(log))
    delays: list[float] = []
    done = threading.Event()

    def follow() -> None:
        request = LogQuery(owner=log.owner, log_name=log.name, log_identity=log.log_identity)
        for lines in LoggerClient(logger.peer).read(request, now=int(time.time()), sign=owner.sign):
            delays.append((time.time_ns() - lines.timestamp_ns) / 1e9)
            if len(delays) == SAMPLES:
                done.set()
                return

    threading.Thread(target=follow, daemon=True).start()
    time.sleep(1)
    for number in range(1, SAMPLES + 1):
        client.write(
            access, [Chunk(data=LINE, timestamp_ns=time.time_ns(), writer=1, sequence=number)]
        )
        time.sleep(0.02)
    if not done.wait(10):
        raise SystemExit("bench: the follower missed lines")
    return delays


def memory_per_stream(logger: LoggerProcess) -> tuple[float, float]:
    """Return the logger's memory per open stream, in KiB: with one connection for each stream, and
    with one connection for all streams.
    """
    client = LoggerClient(logger.peer)
    owners = [Wallet() for _ in range(FOLLOWERS)]
    for owner in owners:
        log = log_of(owner.address)
        access = WriteAccess(owner=log.owner, log_name=log.name, token=logger.token(log))
        client.write(access, [Chunk(data=LINE, timestamp_ns=1)])
    before = resident(logger)
    own = [follow_with(LoggerClient(logger.peer), owner) for owner in owners]
    between = resident(logger)
    shared = [follow_with(client, owner) for owner in owners]
    after = resident(logger)
    for stream in own + shared:
        stream.close()
    return (between - before) / FOLLOWERS, (after - between) / FOLLOWERS


def follow_with(client: LoggerClient, owner: Wallet) -> Iterator[Lines]:
    """Return an open stream, after its first line."""
    log = log_of(owner.address)
    request = LogQuery(owner=log.owner, log_name=log.name, log_identity=log.log_identity)
    stream = client.read(request, now=int(time.time()), sign=owner.sign)
    next(stream)
    return stream


def added(node: Node, access: dict[str, str]) -> list[float]:
    """Return the added time of a job with logging, in seconds, for several one-line jobs.

    A job is the complete rendered script of a workflow. A fake srun starts its task immediately, so
    that the job ends before its writer has started.
    """
    without, with_ = [], []
    for _ in range(JOBS):
        for logging, times in ((False, without), (True, with_)):
            started = time.monotonic()
            code, output = node.run(workflow("echo one", enableLogging=logging), **access)
            times.append(time.monotonic() - started)
            if (code, output.splitlines()[0]) != (0, "one"):
                raise SystemExit(f"bench: a job ended with {code}: {output}")
    return [seconds - statistics.median(without) for seconds in with_]


def memory_per_browser(logger: LoggerProcess, port: int) -> float:
    """Return the logger's memory per browser stream, in KiB, with separate connections."""
    tls = ssl.create_default_context(cafile=logger.peer.ca)
    before = resident(logger)
    connections = []
    for _ in range(BROWSERS):
        owner, now = Wallet(), int(time.time())
        log = log_of(owner.address)
        signature = owner.sign(read_text(log.owner, log.name, now).encode())
        request = ReadRequest(
            address=log.owner, log_name=log.name, timestamp=now, signed_hash=signature
        ).SerializeToString()
        body = base64.b64encode(b"\0" + len(request).to_bytes(4, "big") + request)
        connection = tls.wrap_socket(
            socket.create_connection(("localhost", port)), server_hostname="localhost"
        )
        connection.sendall(
            b"POST /logger.v1alpha1.LoggerAPI/Read HTTP/1.1\r\n"
            b"Host: localhost\r\nContent-Length: %d\r\n"
            b"Content-Type: application/grpc-web-text\r\nOrigin: %s\r\n\r\n%s"
            % (len(body), PORTAL.encode(), body)
        )
        if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
            raise SystemExit("bench: a browser was refused")
        connections.append(connection)
    after = resident(logger)
    for connection in connections:
        connection.close()
    return (after - before) / BROWSERS


def ends(logger: LoggerProcess, folder: Path, lines: int) -> float:
    """Return the median time from the end of the output to the end of the writer, in seconds."""
    times = []
    for _ in range(ENDS):
        access_file = logger.access_file(folder / "access", log_of(Wallet().address))
        writer = subprocess.Popen(
            [sys.executable, "-m", "gridstead.cli.log_writer", access_file], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, env={"PYTHONPATH": "control"},
        )  # fmt: skip
        time.sleep(1.0)
        writer.stdin.write((LINE + b"\n") * lines)
        writer.stdin.close()
        ended = time.monotonic()
        writer.wait()
        times.append(time.monotonic() - ended)
        shutil.rmtree(folder / "spool")
    return statistics.median(times)


def node_at(folder: Path) -> Node:
    """Return a fake node with the real log writer."""
    folder.mkdir()
    node = Node(folder)
    node.add_program(
        "writer",
        f"#!/bin/sh\nPYTHONPATH={CHECKOUT}/control "
        f'exec {sys.executable} -m gridstead.cli.log_writer "$@"\n',
    )
    return node


def access_to(logger: LoggerProcess, address: str) -> dict[str, str]:
    """Return a job's environment variables for a logger at this address."""
    log = log_of(Wallet().address)
    return {
        "GRIDSTEAD_LOGGER_URL": address,
        "GRIDSTEAD_LOGGER_CA": str(logger.peer.ca),
        "GRIDSTEAD_LOG_OWNER": log.owner,
        "GRIDSTEAD_LOG_NAME": log.name,
        "GRIDSTEAD_LOG_TOKEN": logger.token(log),
    }


def resident(logger: LoggerProcess) -> float:
    """Return the resident memory of the idle logger process, in KiB."""
    time.sleep(3)
    status = Path(f"/proc/{logger.process.pid}/status").read_text()
    return float(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def main() -> int:
    """Run the benchmark and return an exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=200, help="MiB that each writer writes")
    parser.add_argument("--as-writer", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_writer:
        address, ca, owner, name, token, count = options.as_writer
        write(address, Path(ca), WriteAccess(owner=owner, log_name=name, token=token), int(count))
        return 0
    with tempfile.TemporaryDirectory() as name:
        return measure(Path(name), options.mib)


def measure(folder: Path, mib: int) -> int:
    """Print all figures and return an exit status."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        web_port = free.getsockname()[1]
    logger = LoggerProcess(
        folder,
        max_log_mib=4096,
        web_origins=json.dumps([PORTAL]),
        web_listen=f'"127.0.0.1:{web_port}"',
    )
    logger.start()
    logger.wait()
    single, double = (throughput(logger, writers=writers, mib=mib) for writers in (1, 2))
    print(f"write: one writer {single:.0f} MB/s, two {double:.0f} MB/s (at least {MIN_WRITE:.0f})")
    delays = latency(logger)
    print(f"follow: {summary(delays)} (at most {MAX_FOLLOW_S * 1000:.0f})")
    node = node_at(folder / "node")
    reachable, absent = (
        added(node, access_to(logger, address)) for address in (logger.peer.address, CLOSED)
    )
    print(f"added to a one-line job: {summary(reachable)} (at most {MAX_ADDED_S * 1000:.0f})")
    print(f"without a logger: {summary(absent)} (at most {MAX_ADDED_S * 1000:.0f})")
    for lines in (1, 100_000):
        delay_ms = ends(logger, folder, lines) * 1000
        print(f"a job with {lines} lines at its end ends {delay_ms:.0f} ms later")
    own, shared = memory_per_stream(logger)
    print(
        f"memory per open stream: {own:.0f} KiB with separate connections, "
        f"{shared:.0f} KiB with one connection"
    )
    print(f"memory per open stream of a browser: {memory_per_browser(logger, web_port):.0f} KiB")
    logger.kill()
    quick = max(delays) <= MAX_FOLLOW_S and max(reachable + absent) <= MAX_ADDED_S
    return 0 if quick and min(single, double) >= MIN_WRITE else 1


def summary(seconds: list[float]) -> str:
    """Return median and maximum of a sample as text."""
    median, longest = statistics.median(seconds) * 1000, max(seconds) * 1000
    return f"median {median:.0f} ms, longest of {len(seconds)} {longest:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
