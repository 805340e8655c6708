# SPDX-License-Identifier: Apache-2.0
"""What is removed, what stays, and what a sweep that dies leaves."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from tests.adapters.cvmfs.conftest import KEEP_S
from tests.fakes.cvmfs import DAY_S, TREE, Chunks, Nested
from tests.fakes.stratum0 import refusing

from gridstead.errors import InvalidInput, ReplicaBusy, RepositoryIncomplete, RepositoryUnavailable, RepositoryUntrusted

OTHER = {"new": b"new\n", "v2": Nested({"lib": b"n" * 3000, "big": Chunks(b"0123456789" * 9000)})}


@pytest.fixture
def two(scene):
    """A replica of a second revision that shares nothing with the first; objects of each."""
    scene.replica().snapshot()
    first = scene.objects()
    scene.publisher.publish(OTHER)
    scene.replica().snapshot()
    return scene, first, scene.objects() - first


def test_a_revision_that_was_just_superseded_stays_for_who_still_reads_it(two):
    scene, first, second = two

    swept = scene.replica().sweep()

    assert (swept.removed, swept.kept) == (0, len(first | second))
    assert scene.objects() == first | second


def test_a_revision_that_was_superseded_long_ago_goes_and_the_served_one_stays_in_whole(two):
    scene, first, second = two
    scene.clock.at += KEEP_S

    swept = scene.replica().sweep()

    shared = {path for path in first if path[-1] in "XM"}
    assert scene.objects() == second | shared
    assert swept.removed == len(first - shared)
    assert swept.removed_bytes == sum((scene.publisher.root / path).stat().st_size for path in first - shared)
    assert json.loads(scene.served(".cvmfs_status.json"))["last_gc"] == "Mon Jan 18 08:00:00 UTC 2027"
    assert scene.replica().snapshot(check=True).fetched == 0


def test_a_revision_that_has_a_tag_stays(new_scene):
    scene = new_scene()
    scene.publisher.publish(tag="first")
    scene.replica().snapshot()
    scene.publisher.publish(OTHER)
    scene.replica().snapshot()
    scene.clock.at += KEEP_S
    histories = {path for path in scene.objects() if path.endswith("H")}

    scene.replica().sweep()

    assert scene.replica().snapshot(check=True).fetched == 0
    assert scene.publisher.objects() - scene.objects() <= histories


def test_a_dry_run_removes_nothing_and_counts_the_same(two):
    scene, first, second = two
    scene.clock.at += KEEP_S

    told = scene.replica().sweep(dry_run=True)

    assert scene.objects() == first | second
    assert scene.replica().sweep() == told


def test_what_an_interrupted_pull_left_goes_too(two):
    scene, _, _ = two
    scene.publisher.publish({**TREE, "more": Nested({"x": b"only here\n"})})
    root = scene.publisher.catalog
    scene.stratum0.faults[f"data/{root[:2]}/{root[2:]}C"] = refusing(503)
    before = scene.objects()
    with pytest.raises(RepositoryUnavailable):
        scene.replica().snapshot()
    (scene.here / "data/txn" / (root + "C")).write_bytes(b"staged")

    scene.replica().sweep()

    assert scene.objects() == before
    assert list((scene.here / "data/txn").iterdir()) == []


def test_what_is_no_object_is_left_alone(two):
    scene, _, _ = two
    (scene.here / "data/00").mkdir(exist_ok=True)
    (scene.here / "data/00/notes.txt").write_text("of the operator")
    (scene.here / "data/lost+found").mkdir()

    scene.replica().sweep()

    assert (scene.here / "data/00/notes.txt").is_file()


def test_nothing_is_removed_when_a_catalog_cannot_be_read(two):
    scene, first, second = two
    scene.clock.at += KEEP_S
    catalog = next(path for path in second if path.endswith("C"))
    (scene.here / catalog).write_bytes(b"rotten")

    with pytest.raises(RepositoryUntrusted):
        scene.replica().sweep()

    assert scene.objects() == first | second


@pytest.mark.parametrize("leave", [Path.unlink, lambda catalog: (catalog.unlink(), catalog.mkdir())])
def test_a_catalog_that_is_gone_or_cannot_be_opened_is_not_told_as_a_full_or_broken_disk(two, leave):
    scene, first, second = two
    scene.clock.at += KEEP_S
    catalog = next(path for path in second if path.endswith("C"))
    leave(scene.here / catalog)

    with pytest.raises(RepositoryIncomplete) as failure:
        scene.replica().sweep()

    assert catalog.removeprefix("data/").replace("/", "") in str(failure.value)
    assert "snapshot --check" in failure.value.hint
    assert (scene.objects() | {catalog}) == first | second


def test_after_a_sweep_that_died_the_next_pull_trusts_no_catalog(two, monkeypatch):
    """Half of the first revision is gone when it is published anew: its catalogs prove nothing."""
    scene, first, _ = two
    scene.clock.at += KEEP_S
    unlink, left = Path.unlink, [len(first) // 2]

    def dying(path, *, missing_ok=False):
        if path.parent.parent.name == "data" and path.parent.name != "txn":
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", dying)
    with suppress(KeyboardInterrupt):
        scene.replica().sweep()
    monkeypatch.setattr(Path, "unlink", unlink)
    assert scene.replica().state().doubted
    scene.publisher.publish(TREE)

    scene.replica().snapshot()

    assert scene.replica().snapshot(check=True).fetched == 0
    assert not scene.replica().state().doubted


def test_a_repository_that_does_not_let_go_of_old_revisions_is_not_swept(new_scene):
    scene = new_scene(collectable=False)
    scene.publisher.publish()
    scene.replica().snapshot()

    with pytest.raises(InvalidInput, match="must stay"):
        scene.replica().sweep()


def test_nothing_is_swept_before_the_first_pull(scene):
    with pytest.raises(InvalidInput, match=r"nothing of .* is here"):
        scene.replica().sweep()


def test_a_sweep_does_not_run_beside_a_pull(scene):
    refused = []

    def tell(_):
        if not refused:
            with pytest.raises(ReplicaBusy) as failure:
                scene.replica().sweep()
            refused.append(failure.value)

    scene.replica(workers=1).snapshot(tell=tell)

    assert refused


def test_a_tick_pulls_and_sweeps_when_it_is_time(two):
    scene, first, _ = two
    replica = scene.replica()
    replica.tick()
    scene.clock.at += KEEP_S

    replica.tick()

    assert scene.objects() & first != first
    swept_at = replica.state().last_sweep
    scene.clock.at += DAY_S - 1
    replica.tick()
    assert replica.state().last_sweep == swept_at


def test_revisions_that_are_no_longer_kept_are_forgotten_also_where_nothing_is_swept(new_scene):
    scene = new_scene(collectable=False)
    scene.publisher.publish()
    scene.replica().snapshot()
    scene.publisher.publish(OTHER)
    scene.replica().snapshot()
    assert [one.number for one in scene.replica().state().revisions] == [1, 2]
    scene.clock.at += KEEP_S

    scene.replica().snapshot()

    assert [one.number for one in scene.replica().state().revisions] == [2]
    assert len(scene.objects()) == len(scene.publisher.objects())
