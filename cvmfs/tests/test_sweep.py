# SPDX-License-Identifier: Apache-2.0
"""Tests of sweeps. A sweep removes the objects of a replica that no retained revision contains.

The served revision, tagged revisions and recently superseded revisions are retained. The last
character of an object's path is its kind, which publisher.py explains.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from cvmfs.tests.conftest import KEEP_S
from cvmfs.tests.publisher import DAY_S
from cvmfs.tests.stratum0 import refuse_with
from cvmfs.tests.trees import TREE, Chunks, Nested

from gridstead.errors import InvalidInput
from gridstead_cvmfs.errors import (
    ReplicaBusy,
    RepositoryIncomplete,
    RepositoryUnavailable,
    RepositoryUntrusted,
)

OTHER = {"new": b"new\n", "v2": Nested({"lib": b"n" * 3000, "big": Chunks(b"0123456789" * 9000)})}


@pytest.fixture
def two_revisions(replica_setup):
    """Create a replica of two revisions that have no file in common.

    Return the replica, the objects of the first revision, and the objects of the second revision
    that the first revision does not have.
    """
    replica_setup.replica().snapshot()
    first_objects = replica_setup.objects()
    replica_setup.publisher.publish(OTHER)
    replica_setup.replica().snapshot()
    return replica_setup, first_objects, replica_setup.objects() - first_objects


def test_a_recently_superseded_revision_is_kept(two_revisions):
    replica_setup, first_objects, second_objects = two_revisions

    result = replica_setup.replica().sweep()

    assert (result.removed, result.kept) == (0, len(first_objects | second_objects))
    assert replica_setup.objects() == first_objects | second_objects


def test_an_old_superseded_revision_is_removed_and_the_served_revision_is_kept(two_revisions):
    replica_setup, first_objects, second_objects = two_revisions
    replica_setup.clock.seconds += KEEP_S

    result = replica_setup.replica().sweep()

    # Both revisions have the same certificate and metainfo.
    shared_paths = {path for path in first_objects if path[-1] in "XM"}
    removed_paths = first_objects - shared_paths
    publisher_root = replica_setup.publisher.root
    assert replica_setup.objects() == second_objects | shared_paths
    assert result.removed == len(removed_paths)
    assert result.removed_bytes == sum(
        (publisher_root / path).stat().st_size for path in removed_paths
    )
    status = json.loads(replica_setup.served_file(".cvmfs_status.json"))
    assert status["last_gc"] == "Mon Jan 18 08:00:00 UTC 2027"  # KEEP_S after NOW
    assert replica_setup.replica().snapshot(check=True).fetched == 0


def test_a_revision_with_a_tag_is_kept(new_setup):
    replica_setup = new_setup()
    replica_setup.publisher.publish(tag="first")
    replica_setup.replica().snapshot()
    replica_setup.publisher.publish(OTHER)
    replica_setup.replica().snapshot()
    replica_setup.clock.seconds += KEEP_S
    # Of the published objects, the sweep may remove only the histories (lists of tags) of old
    # revisions.
    histories = {path for path in replica_setup.objects() if path.endswith("H")}

    replica_setup.replica().sweep()

    assert replica_setup.replica().snapshot(check=True).fetched == 0
    assert replica_setup.publisher.objects() - replica_setup.objects() <= histories


def test_a_dry_run_removes_nothing_and_returns_the_numbers_of_a_real_sweep(two_revisions):
    replica_setup, first_objects, second_objects = two_revisions
    replica_setup.clock.seconds += KEEP_S

    result = replica_setup.replica().sweep(dry_run=True)

    assert replica_setup.objects() == first_objects | second_objects
    assert replica_setup.replica().sweep() == result


def test_the_objects_of_an_interrupted_pull_are_removed(two_revisions):
    replica_setup, _, _ = two_revisions
    replica_setup.publisher.publish({**TREE, "more": Nested({"x": b"only here\n"})})
    root = replica_setup.publisher.catalog
    replica_setup.stratum0.faults[f"data/{root[:2]}/{root[2:]}C"] = refuse_with(503)
    objects_before = replica_setup.objects()
    with pytest.raises(RepositoryUnavailable):
        replica_setup.replica().snapshot()
    (replica_setup.folder / "data/txn" / (root + "C")).write_bytes(b"staged")

    replica_setup.replica().sweep()

    assert replica_setup.objects() == objects_before
    assert list((replica_setup.folder / "data/txn").iterdir()) == []


def test_files_that_are_not_objects_are_not_removed(two_revisions):
    replica_setup, _, _ = two_revisions
    (replica_setup.folder / "data/00").mkdir(exist_ok=True)
    (replica_setup.folder / "data/00/notes.txt").write_text("of the operator")
    (replica_setup.folder / "data/lost+found").mkdir()

    replica_setup.replica().sweep()

    assert (replica_setup.folder / "data/00/notes.txt").is_file()


def test_nothing_is_removed_when_a_catalog_cannot_be_read(two_revisions):
    replica_setup, first_objects, second_objects = two_revisions
    replica_setup.clock.seconds += KEEP_S
    catalog = next(path for path in second_objects if path.endswith("C"))
    (replica_setup.folder / catalog).write_bytes(b"damaged")

    with pytest.raises(RepositoryUntrusted):
        replica_setup.replica().sweep()

    assert replica_setup.objects() == first_objects | second_objects


def replace_with_directory(file):
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [Path.unlink, replace_with_directory])
def test_a_catalog_that_cannot_be_opened_is_reported_as_incomplete(two_revisions, damage):
    replica_setup, first_objects, second_objects = two_revisions
    replica_setup.clock.seconds += KEEP_S
    catalog = next(path for path in second_objects if path.endswith("C"))
    damage(replica_setup.folder / catalog)

    with pytest.raises(RepositoryIncomplete) as failure:
        replica_setup.replica().sweep()

    # The message contains the hash with the kind. For data/12/34...C that is 1234...C.
    assert catalog.removeprefix("data/").replace("/", "") in str(failure.value)
    assert "snapshot --check" in failure.value.hint
    # The sweep removed no object. The test itself may have removed the damaged catalog.
    assert (replica_setup.objects() | {catalog}) == first_objects | second_objects


def test_after_an_interrupted_sweep_the_next_pull_reads_every_catalog(two_revisions, monkeypatch):
    """The first revision is published again after half of its objects were removed."""
    replica_setup, first_objects, _ = two_revisions
    replica_setup.clock.seconds += KEEP_S
    unlink = Path.unlink
    removals_left = [len(first_objects) // 2]  # a list, so that the function below can change it

    def unlink_until_interrupted(path, *, missing_ok=False):
        if path.parent.parent.name == "data" and path.parent.name != "txn":
            removals_left[0] -= 1
            if removals_left[0] < 0:
                raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_until_interrupted)
    with suppress(KeyboardInterrupt):
        replica_setup.replica().sweep()
    monkeypatch.setattr(Path, "unlink", unlink)
    assert replica_setup.replica().state().doubted
    replica_setup.publisher.publish(TREE)

    replica_setup.replica().snapshot()

    assert replica_setup.replica().snapshot(check=True).fetched == 0
    assert not replica_setup.replica().state().doubted


def test_a_repository_that_is_not_collectable_is_not_swept(new_setup):
    replica_setup = new_setup(collectable=False)
    replica_setup.publisher.publish()
    replica_setup.replica().snapshot()

    with pytest.raises(InvalidInput, match="cannot remove old objects"):
        replica_setup.replica().sweep()


def test_a_sweep_before_the_first_pull_is_refused(replica_setup):
    with pytest.raises(InvalidInput, match=r"no revision of .* is stored"):
        replica_setup.replica().sweep()


def test_a_sweep_during_a_pull_is_refused(replica_setup):
    failures = []

    def sweep(_):
        if not failures:
            with pytest.raises(ReplicaBusy) as failure:
                replica_setup.replica().sweep()
            failures.append(failure.value)

    replica_setup.replica(workers=1).snapshot(report=sweep)

    assert failures


def test_a_tick_of_the_service_sweeps_only_when_a_sweep_is_due(two_revisions):
    replica_setup, first_objects, _ = two_revisions
    replica = replica_setup.replica()
    replica.tick()
    replica_setup.clock.seconds += KEEP_S

    replica.tick()

    assert not first_objects <= replica_setup.objects()  # some objects were removed
    swept_at = replica.state().last_sweep
    replica_setup.clock.seconds += DAY_S - 1  # a sweep is due after a day
    replica.tick()
    assert replica.state().last_sweep == swept_at


def revision_numbers(replica_setup):
    return [revision.number for revision in replica_setup.replica().state().revisions]


def test_the_state_omits_old_revisions_of_a_repository_that_is_not_collectable(new_setup):
    replica_setup = new_setup(collectable=False)
    replica_setup.publisher.publish()
    replica_setup.replica().snapshot()
    replica_setup.publisher.publish(OTHER)
    replica_setup.replica().snapshot()
    assert revision_numbers(replica_setup) == [1, 2]
    replica_setup.clock.seconds += KEEP_S

    replica_setup.replica().snapshot()

    assert revision_numbers(replica_setup) == [2]
    assert len(replica_setup.objects()) == len(replica_setup.publisher.objects())
