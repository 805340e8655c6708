#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the logger: throughput, delay of a follower, time added to a job, memory per stream.

The logger is a separate process with TLS on the loopback interface and encrypted logs on disk. The
logger acknowledges lines after it has written the lines to disk. The writers are processes that
send the same calls as a job's log writer: chunks of 64 KiB, 4 MiB per call. The exit code is 1 if a
measurement misses its limit.
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
from gridstead.domain.logs.access import read_request_text  # noqa: E402
from gridstead.domain.logs.log import Chunk, Stream  # noqa: E402
from gridstead.proto.logger_pb2 import ReadRequest  # noqa: E402

MIB = 1024 * 1024
CHUNK_BYTES = 64 * 1024
CHUNKS_PER_CALL = 64
LINE = b"2026-11-21 01:00:00 step 1234 of 9999, loss 0.12345, 99 tokens a second, " + b"x" * 25
MIN_WRITE_MB_PER_S = 50.0
MAX_FOLLOWER_DELAY_S = 0.2
MAX_TIME_ADDED_S = 0.5
FOLLOWED_LINES = 100
FOLLOWERS = 500
BROWSERS = 200
PORTAL_ORIGIN = "https://portal.example"
ONE_LINE_JOBS = 20
ENDED_JOBS = 5
CLOSED_ADDRESS = "localhost:1"  # no process listens on this port


def full_chunk(sequence: int) -> Chunk:
    """Return a full chunk of lines."""
    data = b"\n".join([LINE] * (CHUNK_BYTES // (len(LINE) + 1)))
    return Chunk(
        data=data, timestamp_ns=time.time_ns(), stream=Stream.STDOUT, writer=1, sequence=sequence
    )


def run_writer(address: str, ca: Path, access: WriteAccess, count: int) -> None:
    """Wait for a line on stdin, then write chunks. This is the main function of a writer."""
    client = LoggerClient(GrpcPeer(address=address, ca=ca))
    sys.stdin.readline()
    for first in range(1, count + 1, CHUNKS_PER_CALL):
        end = min(first + CHUNKS_PER_CALL, count + 1)
        client.write(access, list(map(full_chunk, range(first, end))), timeout_s=60)


def throughput(logger: LoggerProcess, *, writers: int, mib: int) -> float:
    """Return the total MB/s (1e6 bytes per second) of several writers. Each writes its own log."""
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
    time.sleep(2 * writers)  # wait while the writers import their modules
    start_s = time.monotonic()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    exit_codes = [process.wait() for process in processes]
    if any(exit_codes):
        raise SystemExit("bench: a writer failed")
    megabytes = writers * count * len(full_chunk(1).data) / 1e6
    return megabytes / (time.monotonic() - start_s)


def follower_delays(logger: LoggerProcess) -> list[float]:
    """Return, for each line, the seconds from the write until a follower receives the line."""
    owner = Wallet()
    log = log_of(owner.address)
    client = LoggerClient(logger.peer)
    access = WriteAccess(owner=log.owner, log_name=log.name, token=logger.token(log))
    delays: list[float] = []
    received_all = threading.Event()

    def follow() -> None:
        request = LogQuery(owner=log.owner, log_name=log.name, log_identity=log.log_identity)
        for lines in LoggerClient(logger.peer).read(request, now=int(time.time()), sign=owner.sign):
            delays.append((time.time_ns() - lines.timestamp_ns) / 1e9)
            if len(delays) == FOLLOWED_LINES:
                received_all.set()
                return

    threading.Thread(target=follow, daemon=True).start()
    time.sleep(1)  # wait until the follower has opened its stream
    for number in range(1, FOLLOWED_LINES + 1):
        client.write(
            access, [Chunk(data=LINE, timestamp_ns=time.time_ns(), writer=1, sequence=number)]
        )
        time.sleep(0.02)
    if not received_all.wait(10):
        raise SystemExit("bench: the follower did not receive all lines within 10 s")
    return delays


def memory_per_stream(logger: LoggerProcess) -> tuple[float, float]:
    """Return the logger's memory per open stream, in KiB.

    The first figure is for streams with separate connections, the second for streams that share one
    connection.
    """
    client = LoggerClient(logger.peer)
    owners = [Wallet() for _ in range(FOLLOWERS)]
    for owner in owners:
        log = log_of(owner.address)
        access = WriteAccess(owner=log.owner, log_name=log.name, token=logger.token(log))
        client.write(access, [Chunk(data=LINE, timestamp_ns=1)])
    before_kib = resident_memory_kib(logger)
    streams = [open_stream(LoggerClient(logger.peer), owner) for owner in owners]
    with_separate_kib = resident_memory_kib(logger)
    streams += [open_stream(client, owner) for owner in owners]
    with_shared_kib = resident_memory_kib(logger)
    for stream in streams:
        stream.close()
    separate_kib = (with_separate_kib - before_kib) / FOLLOWERS
    shared_kib = (with_shared_kib - with_separate_kib) / FOLLOWERS
    return separate_kib, shared_kib


def open_stream(client: LoggerClient, owner: Wallet) -> Iterator[Lines]:
    """Open a stream of an owner's log, read its first line and return the stream."""
    log = log_of(owner.address)
    request = LogQuery(owner=log.owner, log_name=log.name, log_identity=log.log_identity)
    stream = client.read(request, now=int(time.time()), sign=owner.sign)
    next(stream)
    return stream


def times_added_to_jobs(node: Node, access: dict[str, str]) -> list[float]:
    """Return the time that logging adds to each of several one-line jobs, in seconds.

    A job is the complete rendered script of a workflow. A fake srun starts its task immediately, so
    that the job ends before its writer has started.
    """
    times_without_logging, times_with_logging = [], []
    for _ in range(ONE_LINE_JOBS):
        times_without_logging.append(job_time(node, access, logging=False))
        times_with_logging.append(job_time(node, access, logging=True))
    median_s = statistics.median(times_without_logging)
    return [time_s - median_s for time_s in times_with_logging]


def job_time(node: Node, access: dict[str, str], *, logging: bool) -> float:
    """Run a one-line job and return its duration, in seconds."""
    start_s = time.monotonic()
    code, output = node.run(workflow("echo one", enableLogging=logging), **access)
    duration_s = time.monotonic() - start_s
    if code != 0 or output.splitlines()[0] != "one":
        raise SystemExit(f"bench: a job ended with {code}: {output}")
    return duration_s


def memory_per_browser(logger: LoggerProcess, port: int) -> float:
    """Return the logger's memory per browser, in KiB. Each browser has its own connection."""
    tls = ssl.create_default_context(cafile=logger.peer.ca)
    before_kib = resident_memory_kib(logger)
    connections = []
    for _ in range(BROWSERS):
        owner, now = Wallet(), int(time.time())
        log = log_of(owner.address)
        signature = owner.sign(read_request_text(log.owner, log.name, now).encode())
        request = ReadRequest(
            address=log.owner, log_name=log.name, timestamp=now, signed_hash=signature
        ).SerializeToString()
        # A frame of gRPC-Web: no compression, the length of the message, and the message.
        body = base64.b64encode(b"\0" + len(request).to_bytes(4, "big") + request)
        connection = tls.wrap_socket(
            socket.create_connection(("localhost", port)), server_hostname="localhost"
        )
        connection.sendall(
            b"POST /logger.v1alpha1.LoggerAPI/Read HTTP/1.1\r\n"
            b"Host: localhost\r\nContent-Length: %d\r\n"
            b"Content-Type: application/grpc-web-text\r\nOrigin: %s\r\n\r\n%s"
            % (len(body), PORTAL_ORIGIN.encode(), body)
        )
        if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
            raise SystemExit("bench: the logger refused the request of a browser")
        connections.append(connection)
    after_kib = resident_memory_kib(logger)
    for connection in connections:
        connection.close()
    return (after_kib - before_kib) / BROWSERS


def median_writer_delay_s(logger: LoggerProcess, folder: Path, lines: int) -> float:
    """Return the median time from the end of a job's output to the end of its log writer, in s."""
    times = []
    for _ in range(ENDED_JOBS):
        access_file = logger.access_file(folder / "access", log_of(Wallet().address))
        writer = subprocess.Popen(
            [sys.executable, "-m", "gridstead.cli.log_writer", access_file],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={"PYTHONPATH": "control"},
        )
        time.sleep(1.0)  # wait while the writer imports its modules
        writer.stdin.write((LINE + b"\n") * lines)
        writer.stdin.close()
        output_end_s = time.monotonic()
        writer.wait()
        times.append(time.monotonic() - output_end_s)
        shutil.rmtree(folder / "spool")
    return statistics.median(times)


def node_with_log_writer(folder: Path) -> Node:
    """Return a fake node with the real log writer."""
    folder.mkdir()
    node = Node(folder)
    node.add_program(
        "writer",
        f"#!/bin/sh\nPYTHONPATH={CHECKOUT}/control "
        f'exec {sys.executable} -m gridstead.cli.log_writer "$@"\n',
    )
    return node


def logger_environment(logger: LoggerProcess, address: str) -> dict[str, str]:
    """Return the environment variables of a job that sends its output to a logger's address."""
    log = log_of(Wallet().address)
    return {
        "GRIDSTEAD_LOGGER_URL": address,
        "GRIDSTEAD_LOGGER_CA": str(logger.peer.ca),
        "GRIDSTEAD_LOG_OWNER": log.owner,
        "GRIDSTEAD_LOG_NAME": log.name,
        "GRIDSTEAD_LOG_TOKEN": logger.token(log),
    }


def resident_memory_kib(logger: LoggerProcess) -> float:
    """Return the resident memory of the logger process after a short idle time, in KiB."""
    time.sleep(3)
    status = Path(f"/proc/{logger.process.pid}/status").read_text()
    for line in status.splitlines():
        if line.startswith("VmRSS"):
            return float(line.split()[1])
    raise SystemExit("bench: /proc does not show the memory of the logger process")


def main() -> int:
    """Run the benchmark and return an exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=200, help="MiB that each writer writes")
    parser.add_argument("--as-writer", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_writer:
        address, ca, owner, name, token, count = options.as_writer
        access = WriteAccess(owner=owner, log_name=name, token=token)
        run_writer(address, Path(ca), access, int(count))
        return 0
    with tempfile.TemporaryDirectory() as name:
        return measure(Path(name), options.mib)


def measure(folder: Path, mib: int) -> int:
    """Print all figures and return an exit status."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        web_port = server.getsockname()[1]
    logger = LoggerProcess(
        folder,
        max_log_mib=4096,
        web_origins=json.dumps([PORTAL_ORIGIN]),
        web_listen=f'"127.0.0.1:{web_port}"',
    )
    logger.start()
    logger.wait()
    one_writer = throughput(logger, writers=1, mib=mib)
    two_writers = throughput(logger, writers=2, mib=mib)
    print(
        f"write: one writer {one_writer:.0f} MB/s, two {two_writers:.0f} MB/s "
        f"(at least {MIN_WRITE_MB_PER_S:.0f})"
    )
    delays = follower_delays(logger)
    print(f"follow: {summary(delays)} (at most {MAX_FOLLOWER_DELAY_S * 1000:.0f})")
    node = node_with_log_writer(folder / "node")
    with_logger = times_added_to_jobs(node, logger_environment(logger, logger.peer.address))
    without_logger = times_added_to_jobs(node, logger_environment(logger, CLOSED_ADDRESS))
    max_added_ms = MAX_TIME_ADDED_S * 1000
    print(f"added to a one-line job: {summary(with_logger)} (at most {max_added_ms:.0f})")
    print(f"without a logger: {summary(without_logger)} (at most {max_added_ms:.0f})")
    for lines in (1, 100_000):
        delay_ms = median_writer_delay_s(logger, folder, lines) * 1000
        print(f"a job with {lines} lines at its end ends {delay_ms:.0f} ms later")
    separate_kib, shared_kib = memory_per_stream(logger)
    print(
        f"memory per open stream: {separate_kib:.0f} KiB with separate connections, "
        f"{shared_kib:.0f} KiB with one connection"
    )
    print(f"memory per open stream of a browser: {memory_per_browser(logger, web_port):.0f} KiB")
    logger.kill()
    has_passed = (
        max(delays) <= MAX_FOLLOWER_DELAY_S
        and max(with_logger + without_logger) <= MAX_TIME_ADDED_S
        and min(one_writer, two_writers) >= MIN_WRITE_MB_PER_S
    )
    return 0 if has_passed else 1


def summary(seconds: list[float]) -> str:
    """Return the median and the maximum of times as text."""
    median, longest = statistics.median(seconds) * 1000, max(seconds) * 1000
    return f"median {median:.0f} ms, longest of {len(seconds)} {longest:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
