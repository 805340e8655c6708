# SPDX-License-Identifier: Apache-2.0
"""Pulls that end well, pulls that are cut short, and two at once."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace

import pytest
from tests.fakes.cvmfs import NOW, TREE, Chunks, Nested
from tests.fakes.stratum0 import hanging, refusing

from gridstead.adapters.cvmfs import disk
from gridstead.errors import ReplicaBusy, RepositoryUnavailable, StorageFull

NEWER = {
    **TREE,
    "README": b"what this is now\n",
    "v2": Nested({"lib": b"n" * 3000, "big": Chunks(b"0123456789" * 9000)}),
}


@pytest.mark.parametrize("suffix", ["", "-rmd160", "-shake128"])
def test_a_new_repository_is_copied_byte_for_byte_and_is_what_it_was_published_as(
    new_scene, suffix
):
    replica_setup = new_scene(suffix=suffix)
    replica_setup.publisher.publish(tag="first")

    done = replica_setup.replica().snapshot()

    assert replica_setup.same()
    assert done.revision == 1
    assert (
        done.fetched == len(replica_setup.publisher.objects()) - 1
    )  # the certificate came with the letters


def test_the_second_pull_of_a_revision_fetches_nothing(replica_setup):
    replica_setup.replica().snapshot()
    replica_setup.stratum0.fetched()

    done = replica_setup.replica().snapshot()

    assert done.fetched == 0
    assert {path[-1] for path in replica_setup.stratum0.fetched()} == {"X"}


def test_a_new_revision_fetches_only_what_is_new_in_it(replica_setup):
    before = replica_setup.publisher.objects()
    replica_setup.replica().snapshot()
    replica_setup.stratum0.fetched()
    replica_setup.publisher.publish(NEWER)

    replica_setup.replica().snapshot()

    assert {
        path for path in replica_setup.stratum0.fetched() if path[-1] != "X"
    } == replica_setup.publisher.objects() - before
    assert replica_setup.same()


def test_a_revision_with_a_tag_stays_readable_when_it_is_old(new_scene):
    replica_setup = new_scene()
    replica_setup.publisher.publish(tag="first")
    replica_setup.publisher.publish(NEWER)

    replica_setup.replica().snapshot()

    assert replica_setup.objects() == replica_setup.publisher.objects()


def test_clients_are_told_how_fresh_the_replica_is(replica_setup):
    seen = []
    replica_setup.replica().snapshot(
        tell=lambda _: seen.append(replica_setup.served(".cvmfs_is_snapshotting"))
    )

    assert set(seen) == {b"Fri Jan 15 08:00:00 UTC 2027\n"}
    assert replica_setup.served(".cvmfs_is_snapshotting") is None
    assert replica_setup.served(".cvmfs_last_snapshot") == b"Fri Jan 15 08:00:00 UTC 2027\n"
    assert json.loads(replica_setup.served(".cvmfs_status.json")) == {
        "last_snapshot": "Fri Jan 15 08:00:00 UTC 2027"
    }
    assert replica_setup.replica().state().last_snapshot == NOW


def test_progress_is_told_object_by_object(replica_setup):
    told = []

    done = replica_setup.replica().snapshot(tell=told.append)

    assert replace(told[-1], revision=1) == done
    assert [one.objects for one in told] == list(range(1, done.objects + 1))


def test_a_server_that_stumbles_is_asked_again(replica_setup):
    path = min(replica_setup.publisher.objects())
    replica_setup.stratum0.faults[path] = refusing(503, times=2)

    replica_setup.replica().snapshot()

    assert replica_setup.same()


class TestCutShort:
    """A pull that does not end leaves what is served as it was, and the next goes on."""

    def test_what_came_before_a_failure_is_not_fetched_again(self, replica_setup):
        replica_setup.replica().snapshot()
        published = replica_setup.served()
        root = replica_setup.publisher.publish(NEWER)
        last = next(
            iter(
                replica_setup.publisher.objects()
                - replica_setup.objects()
                - {f"data/{root[:2]}/{root[2:]}C"}
            )
        )
        replica_setup.stratum0.faults[last] = refusing(503)
        replica_setup.stratum0.fetched()
        with pytest.raises(RepositoryUnavailable, match="could not fetch"):
            replica_setup.replica(workers=1).snapshot()
        first = replica_setup.stratum0.fetched() - {last}
        assert replica_setup.served() == published

        replica_setup.stratum0.faults.clear()
        replica_setup.replica().snapshot()

        assert {
            path for path in replica_setup.stratum0.fetched() & first if path[-1] != "X"
        } == set()
        assert replica_setup.same()

    def test_the_failure_is_remembered_until_a_pull_ends_well(self, replica_setup):
        replica_setup.stratum0.every = refusing(500)
        with pytest.raises(RepositoryUnavailable):
            replica_setup.replica().snapshot()
        assert (
            replica_setup.replica()
            .state()
            .failure.startswith("repository-unavailable: could not fetch")
        )

        replica_setup.stratum0.every = None
        replica_setup.replica().snapshot()

        assert replica_setup.replica().state().failure == ""

    def test_a_stopped_pull_ends_soon_and_the_next_goes_on(self, replica_setup):
        replica = replica_setup.replica(workers=1)
        with pytest.raises(RepositoryUnavailable, match="stopped"):
            replica.snapshot(tell=lambda _: replica.stop())
        assert replica_setup.served() is None

        replica_setup.replica().snapshot()

        assert replica_setup.same()

    def test_a_server_that_hangs_is_given_up(self, replica_setup):
        replica_setup.stratum0.every = hanging
        started = time.monotonic()

        with pytest.raises(RepositoryUnavailable, match="could not fetch"):
            replica_setup.replica(timeout_s=0.2).snapshot()

        assert time.monotonic() - started < 5

    def test_no_room_on_the_disk_is_told_to_the_operator_and_leaves_what_is_served(
        self, replica_setup, monkeypatch
    ):
        replica_setup.replica().snapshot()
        published = replica_setup.served()
        replica_setup.publisher.publish(NEWER)
        write, left = disk.write_part, [3]

        def full(folder, pieces):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            return write(folder, pieces)

        monkeypatch.setattr("gridstead.adapters.cvmfs.objects.write_part", full)
        with pytest.raises(StorageFull) as failure:
            replica_setup.replica().snapshot()
        assert "Make room" in failure.value.hint
        assert replica_setup.served() == published

        left[0] = 1000
        replica_setup.replica().snapshot()

        assert replica_setup.same()

    def test_a_disk_is_not_filled_beyond_what_the_settings_keep_free(self, replica_setup):
        with pytest.raises(StorageFull, match="no room"):
            replica_setup.replica(min_free=2**60).snapshot()

    @pytest.mark.parametrize("after", [1, 9, 14])
    def test_a_killed_pull_goes_on_and_nothing_of_it_is_half(self, replica_setup, after):
        def die(done):
            if done.objects == after:
                os.kill(os.getpid(), signal.SIGKILL)

        pid = os.fork()
        if pid == 0:
            try:
                replica_setup.replica().snapshot(tell=die)
            finally:
                os._exit(1)
        _, ended = os.waitpid(pid, 0)
        assert os.WTERMSIG(ended) == signal.SIGKILL
        assert replica_setup.served() is None
        assert all(
            (replica_setup.here / one).read_bytes()
            == (replica_setup.publisher.root / one).read_bytes()
            for one in replica_setup.objects()
        )
        replica_setup.stratum0.fetched()
        here = replica_setup.objects()

        replica_setup.replica().snapshot()

        assert {
            path for path in replica_setup.stratum0.fetched() & here if path[-1] != "X"
        } == set()
        assert replica_setup.same()
        assert list((replica_setup.here / "data/txn").iterdir()) == []


def test_two_pulls_at_once_are_one_and_a_refusal(replica_setup):
    refused = []

    def tell(_):
        if not refused:
            with pytest.raises(ReplicaBusy) as failure:
                replica_setup.replica().snapshot()
            refused.append(failure.value)

    replica_setup.replica(workers=1).snapshot(tell=tell)

    assert refused
    assert replica_setup.same()
    assert replica_setup.replica().state().failure == ""


def test_a_check_finds_what_the_disk_lost_and_fetches_it_again(replica_setup):
    replica_setup.replica().snapshot()
    catalogs = sorted(path for path in replica_setup.objects() if path.endswith("C"))
    others = sorted(path for path in replica_setup.objects() if path[-1] not in "CX")
    for path in (catalogs[0], others[0]):
        (replica_setup.here / path).write_bytes(b"rotten")
    (replica_setup.here / others[1]).unlink()
    assert replica_setup.replica().snapshot().fetched == 0

    done = replica_setup.replica().snapshot(check=True)

    assert done.fetched == 3
    assert replica_setup.same()


def test_after_a_check_that_was_cut_short_the_next_pull_looks_at_everything(replica_setup):
    replica_setup.replica().snapshot()
    victim = min(path for path in replica_setup.objects() if path[-1] not in "CHMX")
    (replica_setup.here / victim).write_bytes(b"rotten")
    replica_setup.stratum0.faults[victim] = refusing(503)
    with pytest.raises(RepositoryUnavailable):
        replica_setup.replica().snapshot(check=True)
    replica_setup.stratum0.faults.clear()

    replica_setup.replica().snapshot()

    assert replica_setup.same()
    assert not replica_setup.replica().state().doubted
