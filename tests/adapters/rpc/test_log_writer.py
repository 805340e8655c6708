# SPDX-License-Identifier: Apache-2.0
"""`gridstead-log-writer` as a separate process, with the logger on a real socket."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.workflow.node import Node, workflow

from gridstead.adapters.logs.client import LogQuery
from gridstead.domain.logs.log import Stream

NAME = "0x" + "07" * 32


def read_lines(client, owner, clock):
    """Return the lines of the owner's log."""
    query = LogQuery(owner=owner.address, log_name=NAME, until_now=True)
    lines = []
    for block in client.read(query, now=clock.now(), sign=owner.sign):
        lines += [data.decode() for data in block.lines]
    return lines


class TestWriter:
    """`gridstead-log-writer` as a separate process."""

    @pytest.fixture
    def access_file(self, tmp_path, peer, access):
        """Return a function that writes the file with the log's token and returns its path."""

        def write(address=peer.address, token=access.token, owner=access.owner):
            path = tmp_path / "logger"
            path.write_text(f"{address}\n{peer.ca}\n{owner}\n{NAME}\n{token}\n")
            return path

        return write

    def run(self, access_file, data):
        """Run the writer with ``data`` as its input, and return the copy that the writer prints."""
        writer = subprocess.Popen(
            [sys.executable, "-m", "gridstead.cli.log_writer", access_file],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"PYTHONPATH": "control"},
        )  # fmt: skip
        out, err = writer.communicate(data, timeout=20)
        assert writer.returncode == 0
        assert err == b""
        return out

    def test_input_is_copied_to_stdout_and_sent_to_logger(self, access_file, client, owner, clock):
        out = self.run(access_file(), b"one\n\ntwo\r\nno end")

        assert out == b"one\n\ntwo\r\nno end"
        assert read_lines(client, owner, clock) == ["one", "", "two", "no end"]

    def test_lines_keep_their_stream_and_order(self, access_file, client, owner, clock):
        out_reader, out_writer = os.pipe()
        err_reader, err_writer = os.pipe()
        writer = subprocess.Popen(
            [sys.executable, "-m", "gridstead.cli.log_writer", access_file(), str(err_reader)],
            stdin=out_reader,
            stdout=subprocess.PIPE,
            pass_fds=[err_reader],
            env={"PYTHONPATH": "control"},
        )
        os.close(out_reader)
        os.close(err_reader)
        # The copy of a line shows that the writer has read the line.
        for pipe, text in [
            (out_writer, b"one\n"),
            (err_writer, b"two\n"),
            (out_writer, b"three\n"),
        ]:
            os.write(pipe, text)
            assert os.read(writer.stdout.fileno(), 100) == text
        os.close(out_writer)
        os.close(err_writer)

        assert writer.wait(20) == 0
        writer.stdout.close()
        query = LogQuery(owner=owner.address, log_name=NAME, until_now=True)
        blocks = client.read(query, now=clock.now(), sign=owner.sign)
        assert [(block.stream, block.lines) for block in blocks] == [
            (Stream.STDOUT, (b"one",)), (Stream.STDERR, (b"two",)), (Stream.STDOUT, (b"three",)),
        ]  # fmt: skip

    def test_no_output_is_lost_if_the_logger_is_unreachable(self, access_file):
        data = b"line\n" * 10_000

        out = self.run(access_file(address="localhost:1"), data)

        assert out == data + b"gridstead: 10000 lines did not reach the logger\n"

    def test_no_output_is_lost_if_the_logger_refuses_the_token(self, access_file):
        out = self.run(access_file(token="wrong"), b"line\n")

        assert out == b"line\ngridstead: 1 lines did not reach the logger\n"

    def test_no_output_is_lost_if_the_logger_has_no_address(self, access_file):
        out = self.run(access_file(address=""), b"line\n")

        assert out == b"line\ngridstead: 1 lines did not reach the logger\n"

    def test_lines_are_sent_even_if_the_copy_fails(self, access_file, client, owner, clock):
        with Path("/dev/full").open("wb") as full_device:
            result = subprocess.run(
                [sys.executable, "-m", "gridstead.cli.log_writer", access_file()],
                input=b"one\n" * 3, stdout=full_device, timeout=20, check=True,
                env={"PYTHONPATH": "control"},
            )  # fmt: skip

        assert result.returncode == 0
        assert read_lines(client, owner, clock) == ["one"] * 3


class TestScript:
    """A job's complete script, with the real writer."""

    def test_job_and_its_output_survive_a_killed_writer(
        self, tmp_path, peer, access, client, owner, clock
    ):
        """The job writes more to stderr than a pipe can buffer.

        Therefore, the job can continue only if the script restarts the killed writer.
        """
        (tmp_path / "node").mkdir()
        node = Node(tmp_path / "node")
        # The first writer kills itself after 0.4 s, while the job sleeps.
        kill_once = '[ -e "$HOME/killed" ] || { touch "$HOME/killed"; (sleep 0.4; kill -9 $$) & }'
        path = f"PYTHONPATH={Path('control').resolve()}"
        run_writer = f'{path} exec {sys.executable} -m gridstead.cli.log_writer "$@"'
        node.add_program("writer", f"#!/bin/sh\n{kill_once}\n{run_writer}\n")
        command = (
            "echo one; sleep 0.6; yes y | head -c 70000 >&2; echo last; echo worst >&2; exit 4"
        )
        environment = {
            "GRIDSTEAD_LOGGER_URL": peer.address, "GRIDSTEAD_LOGGER_CA": str(peer.ca),
            "GRIDSTEAD_LOG_OWNER": owner.address, "GRIDSTEAD_LOG_TOKEN": access.token,
        }  # fmt: skip

        code, output = node.run(workflow(command, enableLogging=True), **environment)

        assert code == 4
        markers = {line for line in output.splitlines() if line.startswith("[gridstead] ")}
        assert {"one", "y", "last", "worst"} == set(output.splitlines()) - markers
        query = LogQuery(owner=owner.address, log_name=NAME, until_now=True)
        streams = {}  # the stream of each line
        for block in client.read(query, now=clock.now(), sign=owner.sign):
            streams |= dict.fromkeys(block.lines, block.stream)
        assert (streams[b"last"], streams[b"worst"]) == (Stream.STDOUT, Stream.STDERR)
        assert {streams[marker.encode()] for marker in markers} == {Stream.GRID}
        assert len(markers) == 4  # of the job and of its step
        assert node.leftover_files == []
