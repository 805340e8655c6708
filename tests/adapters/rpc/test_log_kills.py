# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of the logger and of a job's log writer, at random times while the job writes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.fakes.definitions import Wallet
from tests.fakes.logger_process import LoggerProcess, log_of

from gridstead.adapters.logs.client import LoggerClient, LogQuery
from gridstead.domain.logs.log import Stream

ROUNDS = int(os.environ.get("GRIDSTEAD_LOG_KILLS", "40"))
LOGGER_ROUND = 5  # every fifth round kills the logger; the others kill the writer
LINE_INTERVAL_S = 0.001
TIMEOUT_S = 30
# Restarts a writer that was killed, as the script of a job does. $0 is Python, $1 the file with the
# logger's address and the token, $2 the descriptor of the stderr pipe. An exit code above 128 means
# that a signal killed the writer.
RESTARTING_WRITER = (
    "for _ in $(seq 1000); do $0 -m gridstead.cli.log_writer $1 $2 && exit; "
    "[ $? -gt 128 ] || break; done; exit 1"
)
STREAMS = (Stream.STDERR, Stream.STDOUT)  # the streams of even and odd lines


class Job:
    """Writes numbered lines to two pipes, as stdout and stderr. A log writer reads both pipes."""

    def __init__(self, access_file, copy):
        out_reader, out_writer = os.pipe()
        err_reader, err_writer = os.pipe()
        arguments = [sys.executable, access_file, str(err_reader)]
        with copy.open("wb") as copy_file:
            self._shell = subprocess.Popen(
                ["bash", "-c", RESTARTING_WRITER, *arguments],
                stdin=out_reader,
                stdout=copy_file,
                stderr=subprocess.DEVNULL,
                pass_fds=[err_reader],
                env={"PYTHONPATH": "control", "PATH": os.environ["PATH"]},
            )
        os.close(out_reader)
        os.close(err_reader)
        self._pipes = (err_writer, out_writer)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.line_count = 0
        self._thread.start()

    def kill_writer(self):
        shell = self._shell.pid
        for child in Path(f"/proc/{shell}/task/{shell}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)

    def stop_writing(self):
        self._ending.set()
        self._thread.join()

    def end(self):
        for fd in self._pipes:
            os.close(fd)
        assert self._shell.wait(30) == 0

    def _write(self):
        while not self._ending.wait(LINE_INTERVAL_S):
            self.line_count += 1
            pipe = self._pipes[self.line_count % 2]
            os.write(pipe, b"%d\n" % self.line_count)


def kill_at_random(logger, job):
    """Kill the writer or the logger ``ROUNDS`` times while the job writes."""
    rng = random.Random(7)
    for number in range(ROUNDS):
        time.sleep(rng.uniform(0.0, 0.4))
        if number % LOGGER_ROUND != 0:
            job.kill_writer()
        else:
            logger.kill()
            logger.start()


def read_log(client, log, owner):
    """Return (line number, stream) of each line in the logger's copy of the log."""
    query = LogQuery(
        owner=log.owner, log_name=log.name, log_identity=log.log_identity, until_now=True
    )
    lines = []
    for block in client.read(query, now=int(time.time()), sign=owner.sign):
        lines += [(int(line), block.stream) for line in block.lines]
    return lines


def wait_for_last_lines(logger, log, owner, job):
    """Wait until the log has the job's last two lines, but at most TIMEOUT_S. Return all lines."""
    client = LoggerClient(logger.peer)
    deadline = time.monotonic() + TIMEOUT_S
    lines = read_log(client, log, owner)
    last_numbers = {job.line_count, job.line_count - 1}
    while not last_numbers <= dict(lines).keys():
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
        lines = read_log(client, log, owner)
    client.close()
    return lines


def test_no_acknowledged_line_is_lost_or_repeated(tmp_path):
    """The log writer acknowledges a line by writing it to a copy of the job's output.

    On a cluster, the copy is Slurm's output file.
    """
    logger = LoggerProcess(tmp_path)
    logger.start()
    logger.wait()
    owner = Wallet()
    log = log_of(owner.address)
    copy = tmp_path / "copy"
    job = Job(logger.access_file(tmp_path / "access", log), copy)

    kill_at_random(logger, job)
    job.stop_writing()
    logger.wait()
    lines = wait_for_last_lines(logger, log, owner, job)
    job.end()
    logger.kill()

    copied_numbers = {int(line) for line in copy.read_bytes().split(b"\n") if line.isdigit()}
    assert len(copied_numbers) > ROUNDS
    assert copied_numbers - dict(lines).keys() == set()  # no line is lost
    for stream in STREAMS:
        numbers = [number for number, line_stream in lines if line_stream is stream]
        assert numbers == sorted(set(numbers))  # sorted, without duplicates
    for number, stream in lines:
        assert stream is STREAMS[number % 2]
    assert job.line_count in dict(lines)
