# SPDX-License-Identifier: Apache-2.0
"""Tests of complete pulls, interrupted pulls, and a pull that starts during another pull.

A pull copies the newest revision from a Stratum 0 to a replica. The last character of an object's
path is its kind, which publisher.py explains.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace

import pytest
from cvmfs.tests.publisher import NOW
from cvmfs.tests.stratum0 import hang, refuse_with
from cvmfs.tests.trees import TREE, Chunks, Nested

from gridstead_cvmfs.adapters import disk
from gridstead_cvmfs.errors import ReplicaBusy, RepositoryUnavailable, StorageFull

NEWER = {
    **TREE,
    "README": b"what this is now\n",
    "v2": Nested({"lib": b"n" * 3000, "big": Chunks(b"0123456789" * 9000)}),
}


@pytest.mark.parametrize("suffix", ["", "-rmd160", "-shake128"])
def test_a_new_repository_is_copied_byte_for_byte(new_setup, suffix):
    replica_setup = new_setup(suffix=suffix)
    replica_setup.publisher.publish(tag="first")

    result = replica_setup.replica().snapshot()

    assert replica_setup.is_identical()
    assert result.revision == 1
    # The certificate is fetched with the signed files and is not counted.
    assert result.fetched == len(replica_setup.publisher.objects()) - 1


def without_certificates(paths):
    """Return the paths without those of certificates, because every pull fetches a certificate."""
    return {path for path in paths if not path.endswith("X")}


def test_the_second_pull_of_a_revision_fetches_nothing(replica_setup):
    replica_setup.replica().snapshot()
    replica_setup.stratum0.fetched()  # resets the counts of requests

    result = replica_setup.replica().snapshot()

    assert result.fetched == 0
    fetched_paths = replica_setup.stratum0.fetched()
    assert fetched_paths
    assert without_certificates(fetched_paths) == set()


def test_a_pull_of_a_new_revision_fetches_its_new_objects_and_no_others(replica_setup):
    before = replica_setup.publisher.objects()
    replica_setup.replica().snapshot()
    replica_setup.stratum0.fetched()  # resets the counts of requests
    replica_setup.publisher.publish(NEWER)

    replica_setup.replica().snapshot()

    fetched_paths = without_certificates(replica_setup.stratum0.fetched())
    assert fetched_paths == replica_setup.publisher.objects() - before
    assert replica_setup.is_identical()


def test_an_old_revision_with_a_tag_is_pulled(new_setup):
    replica_setup = new_setup()
    replica_setup.publisher.publish(tag="first")
    replica_setup.publisher.publish(NEWER)

    replica_setup.replica().snapshot()

    assert replica_setup.objects() == replica_setup.publisher.objects()


def test_the_status_files_have_the_time_of_the_pull(replica_setup):
    announcements = []  # contents of the file that exists only during a pull
    replica_setup.replica().snapshot(
        report=lambda _: announcements.append(replica_setup.served_file(".cvmfs_is_snapshotting"))
    )

    assert set(announcements) == {b"Fri Jan 15 08:00:00 UTC 2027\n"}
    assert replica_setup.served_file(".cvmfs_is_snapshotting") is None
    assert replica_setup.served_file(".cvmfs_last_snapshot") == b"Fri Jan 15 08:00:00 UTC 2027\n"
    assert json.loads(replica_setup.served_file(".cvmfs_status.json")) == {
        "last_snapshot": "Fri Jan 15 08:00:00 UTC 2027"
    }
    assert replica_setup.replica().state().last_snapshot == NOW


def test_progress_is_reported_for_every_object(replica_setup):
    reports = []

    result = replica_setup.replica().snapshot(report=reports.append)

    # A report has no revision yet.
    assert replace(reports[-1], revision=1) == result
    assert [report.objects for report in reports] == list(range(1, result.objects + 1))


def test_a_temporary_failure_of_the_server_is_retried(replica_setup):
    path = min(replica_setup.publisher.objects())
    replica_setup.stratum0.faults[path] = refuse_with(503, times=2)

    replica_setup.replica().snapshot()

    assert replica_setup.is_identical()


class TestInterrupted:
    """An interrupted pull leaves the served revision unchanged, and the next pull resumes."""

    def test_objects_fetched_before_a_failure_are_not_fetched_again(self, replica_setup):
        replica_setup.replica().snapshot()
        old_manifest = replica_setup.served_file()
        root = replica_setup.publisher.publish(NEWER)
        missing_paths = replica_setup.publisher.objects() - replica_setup.objects()
        root_catalog = f"data/{root[:2]}/{root[2:]}C"
        failing_path = next(iter(missing_paths - {root_catalog}))
        replica_setup.stratum0.faults[failing_path] = refuse_with(503)
        replica_setup.stratum0.fetched()  # resets the counts of requests
        with pytest.raises(RepositoryUnavailable, match="could not fetch"):
            replica_setup.replica(workers=1).snapshot()
        fetched_before_failure = replica_setup.stratum0.fetched() - {failing_path}
        assert replica_setup.served_file() == old_manifest

        replica_setup.stratum0.faults.clear()
        replica_setup.replica().snapshot()

        fetched_twice = replica_setup.stratum0.fetched() & fetched_before_failure
        assert without_certificates(fetched_twice) == set()
        assert replica_setup.is_identical()

    def test_the_state_has_the_failure_until_a_pull_succeeds(self, replica_setup):
        replica_setup.stratum0.fault_for_all = refuse_with(500)
        with pytest.raises(RepositoryUnavailable):
            replica_setup.replica().snapshot()
        failure = replica_setup.replica().state().failure
        assert failure.startswith("repository-unavailable: could not fetch")

        replica_setup.stratum0.fault_for_all = None
        replica_setup.replica().snapshot()

        assert replica_setup.replica().state().failure == ""

    def test_a_stopped_pull_ends_soon_and_the_next_pull_resumes(self, replica_setup):
        replica = replica_setup.replica(workers=1)
        with pytest.raises(RepositoryUnavailable, match="stopped"):
            replica.snapshot(report=lambda _: replica.stop())
        assert replica_setup.served_file() is None

        replica_setup.replica().snapshot()

        assert replica_setup.is_identical()

    def test_a_server_that_does_not_answer_times_out(self, replica_setup):
        replica_setup.stratum0.fault_for_all = hang
        start_s = time.monotonic()

        with pytest.raises(RepositoryUnavailable, match="could not fetch"):
            replica_setup.replica(timeout_s=0.2).snapshot()

        assert time.monotonic() - start_s < 5

    def test_a_full_disk_leaves_the_served_revision_unchanged(self, replica_setup, monkeypatch):
        replica_setup.replica().snapshot()
        old_manifest = replica_setup.served_file()
        replica_setup.publisher.publish(NEWER)
        write = disk.write_temporary_file
        writes_left = [3]  # a list, so that the function below can change it

        def write_until_full(folder, pieces):
            writes_left[0] -= 1
            if writes_left[0] < 0:
                raise OSError(28, "No space left on device")
            return write(folder, pieces)

        monkeypatch.setattr(
            "gridstead_cvmfs.adapters.objects.write_temporary_file", write_until_full
        )
        with pytest.raises(StorageFull) as failure:
            replica_setup.replica().snapshot()
        assert failure.value.hint
        assert replica_setup.served_file() == old_manifest

        writes_left[0] = 1000
        replica_setup.replica().snapshot()

        assert replica_setup.is_identical()

    def test_a_pull_is_refused_if_less_than_the_configured_space_is_free(self, replica_setup):
        with pytest.raises(StorageFull, match="no room"):
            replica_setup.replica(min_free=2**60).snapshot()

    # The pull is killed when it has checked this number of objects.
    @pytest.mark.parametrize("object_count", [1, 9, 14])
    def test_a_killed_pull_leaves_no_partial_object_and_resumes(self, replica_setup, object_count):
        def die(progress):
            if progress.objects == object_count:
                os.kill(os.getpid(), signal.SIGKILL)

        pid = os.fork()
        if pid == 0:
            try:
                replica_setup.replica().snapshot(report=die)
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        assert replica_setup.served_file() is None
        # Every stored object is complete, and the next pull does not fetch it again.
        stored_paths = replica_setup.objects()
        assert all(replica_setup.is_same_file(path) for path in stored_paths)
        replica_setup.stratum0.fetched()  # resets the counts of requests

        replica_setup.replica().snapshot()

        assert without_certificates(replica_setup.stratum0.fetched() & stored_paths) == set()
        assert replica_setup.is_identical()
        assert list((replica_setup.folder / "data/txn").iterdir()) == []


def test_a_pull_is_refused_during_another_pull_of_the_repository(replica_setup):
    failures = []

    def pull_again(_):
        if not failures:
            with pytest.raises(ReplicaBusy) as failure:
                replica_setup.replica().snapshot()
            failures.append(failure.value)

    replica_setup.replica(workers=1).snapshot(report=pull_again)

    assert failures
    assert replica_setup.is_identical()
    assert replica_setup.replica().state().failure == ""


def test_a_check_fetches_damaged_and_missing_objects_again(replica_setup):
    replica_setup.replica().snapshot()
    catalogs = sorted(path for path in replica_setup.objects() if path.endswith("C"))
    other_paths = sorted(path for path in replica_setup.objects() if path[-1] not in "CX")
    for path in (catalogs[0], other_paths[0]):
        (replica_setup.folder / path).write_bytes(b"damaged")
    (replica_setup.folder / other_paths[1]).unlink()
    # A pull without a check does not notice the damage.
    assert replica_setup.replica().snapshot().fetched == 0

    result = replica_setup.replica().snapshot(check=True)

    assert result.fetched == 3  # two damaged objects and a missing one
    assert replica_setup.is_identical()


def test_after_an_interrupted_check_the_next_pull_reads_every_catalog(replica_setup):
    replica_setup.replica().snapshot()
    damaged_path = min(path for path in replica_setup.objects() if path[-1] not in "CHMX")
    (replica_setup.folder / damaged_path).write_bytes(b"damaged")
    replica_setup.stratum0.faults[damaged_path] = refuse_with(503)
    with pytest.raises(RepositoryUnavailable):
        replica_setup.replica().snapshot(check=True)
    replica_setup.stratum0.faults.clear()

    replica_setup.replica().snapshot()

    assert replica_setup.is_identical()
    # An interrupted check marks the replica as doubted until a pull has read every catalog.
    assert not replica_setup.replica().state().doubted
