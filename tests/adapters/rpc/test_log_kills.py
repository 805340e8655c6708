# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the logger and of a job's writer, at random moments while the job writes."""

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
LOGGER_EVERY = 5  # the writer is killed in the other rounds
LINE_S = 0.001
TIMEOUT_S = 30
RESTARTS = (
    "for _ in $(seq 1000); do $0 -m gridstead.cli.log_writer $1 $2 && exit; "
    "[ $? -gt 128 ] || break; done; exit 1"
)
STREAMS = (Stream.STDERR, Stream.STDOUT)  # of even and odd lines


class Job:
    """Writes numbered lines to both streams of a writer that restarts as in a job's script."""

    def __init__(self, access_file, copy):
        (out, into_out), (err, into_err) = os.pipe(), os.pipe()
        with copy.open("wb") as into:
            self._shell = subprocess.Popen(
                ["bash", "-c", RESTARTS, sys.executable, access_file, str(err)],
                stdin=out, stdout=into, stderr=subprocess.DEVNULL, pass_fds=[err],
                env={"PYTHONPATH": "control", "PATH": os.environ["PATH"]},
            )  # fmt: skip
        os.close(out)
        os.close(err)
        self._into = (into_err, into_out)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.written = 0
        self._thread.start()

    def kill_writer(self):
        shell = self._shell.pid
        for child in Path(f"/proc/{shell}/task/{shell}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)

    def stop_writing(self):
        self._ending.set()
        self._thread.join()

    def end(self):
        for fd in self._into:
            os.close(fd)
        assert self._shell.wait(30) == 0

    def _write(self):
        while not self._ending.wait(LINE_S):
            self.written += 1
            os.write(self._into[self.written % 2], b"%d\n" % self.written)


def kill_at_random(logger, job):
    """Kill the writer or the logger ``ROUNDS`` times while the job writes."""
    rng = random.Random(7)
    for number in range(ROUNDS):
        time.sleep(rng.uniform(0.0, 0.4))
        if number % LOGGER_EVERY:
            job.kill_writer()
        else:
            logger.kill()
            logger.start()


def read_log(client, log, owner):
    """Return (number, stream) of each line that the logger has."""
    query = LogQuery(
        owner=log.owner, log_name=log.name, log_identity=log.log_identity, until_now=True
    )
    lines = []
    for block in client.read(query, now=int(time.time()), sign=owner.sign):
        lines += [(int(line), block.stream) for line in block.lines]
    return lines


def wait_for_last_lines(logger, log, owner, job):
    """Wait until the log has the job's last two lines, or for the timeout; return all lines."""
    client = LoggerClient(logger.peer)
    deadline = time.monotonic() + TIMEOUT_S
    lines = read_log(client, log, owner)
    while not {job.written, job.written - 1} <= dict(lines).keys():
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
        lines = read_log(client, log, owner)
    client.close()
    return lines


def test_no_acknowledged_line_is_lost_or_repeated(tmp_path):
    """An acknowledged line is in the copy, which represents Slurm's output file."""
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

    copied = {int(line) for line in copy.read_bytes().split(b"\n") if line.isdigit()}
    assert len(copied) > ROUNDS
    assert copied - dict(lines).keys() == set()
    for stream in STREAMS:
        numbers = [number for number, line_stream in lines if line_stream is stream]
        assert numbers == sorted(set(numbers))
    assert all(STREAMS[number % 2] is stream for number, stream in lines)
    assert job.written in dict(lines)
