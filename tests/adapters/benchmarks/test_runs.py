# SPDX-License-Identifier: Apache-2.0
"""Tests of the files about the current run."""

import subprocess
import sys

import pytest

from gridstead.adapters.benchmarks.runs import ProgressFile, RequestFile, RunLockFile
from gridstead.errors import BenchmarksNotStarted, UnexpectedOutput

HOLD_LOCK = """
import sys
from pathlib import Path
from gridstead.adapters.benchmarks.runs import RunLockFile
with RunLockFile(Path(sys.argv[1])).held(wait=False):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Yield another process that holds the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_the_lock_is_free_again_after_its_process_was_killed(tmp_path, holder):
    lock = RunLockFile(tmp_path)
    assert lock.is_held()
    with pytest.raises(BenchmarksNotStarted), lock.held(wait=False):
        pass

    holder.kill()
    holder.wait()

    assert not lock.is_held()
    with lock.held(wait=False):
        assert lock.is_held()


def test_a_run_that_waits_gets_the_lock_at_the_end_of_the_other_run(tmp_path, holder):
    lock = RunLockFile(tmp_path)
    holder.stdin.close()

    with lock.held(wait=True):
        assert holder.wait() == 0


def test_a_directory_without_a_lock_file_has_no_run(tmp_path):
    assert not RunLockFile(tmp_path / "missing").is_held()


def test_a_request_that_cannot_be_written_is_refused_with_the_reason(tmp_path):
    requests = RequestFile(tmp_path / "missing")

    with pytest.raises(BenchmarksNotStarted) as caught:
        requests.put("{}")

    assert "No such file" in caught.value.detail


def test_a_refused_request_leaves_no_file(tmp_path):
    requests = RequestFile(tmp_path)
    requests.put("{}")
    with pytest.raises(BenchmarksNotStarted):
        requests.put("{}")

    assert [path.name for path in tmp_path.iterdir()] == ["request.json"]


def test_a_progress_that_is_not_text_is_an_error_with_its_path(tmp_path):
    (tmp_path / "progress.json").write_bytes(b"\xff")

    with pytest.raises(UnexpectedOutput, match=r"progress\.json"):
        ProgressFile(tmp_path).read()
