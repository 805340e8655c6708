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

from gridstead.errors import (
    InvalidInput,
    ReplicaBusy,
    RepositoryIncomplete,
    RepositoryUnavailable,
    RepositoryUntrusted,
)

OTHER = {"new": b"new\n", "v2": Nested({"lib": b"n" * 3000, "big": Chunks(b"0123456789" * 9000)})}


@pytest.fixture
def two(replica_setup):
    """A replica of a second revision that shares nothing with the first; objects of each."""
    replica_setup.replica().snapshot()
    first = replica_setup.objects()
    replica_setup.publisher.publish(OTHER)
    replica_setup.replica().snapshot()
    return replica_setup, first, replica_setup.objects() - first


def test_a_revision_that_was_just_superseded_stays_for_who_still_reads_it(two):
    replica_setup, first, second = two

    swept = replica_setup.replica().sweep()

    assert (swept.removed, swept.kept) == (0, len(first | second))
    assert replica_setup.objects() == first | second


def test_a_revision_that_was_superseded_long_ago_goes_and_the_served_one_stays_in_whole(two):
    replica_setup, first, second = two
    replica_setup.clock.occurred_at += KEEP_S

    swept = replica_setup.replica().sweep()

    shared = {path for path in first if path[-1] in "XM"}
    assert replica_setup.objects() == second | shared
    assert swept.removed == len(first - shared)
    assert swept.removed_bytes == sum(
        (replica_setup.publisher.root / path).stat().st_size for path in first - shared
    )
    assert (
        json.loads(replica_setup.served(".cvmfs_status.json"))["last_gc"]
        == "Mon Jan 18 08:00:00 UTC 2027"
    )
    assert replica_setup.replica().snapshot(check=True).fetched == 0


def test_a_revision_that_has_a_tag_stays(new_scene):
    replica_setup = new_scene()
    replica_setup.publisher.publish(tag="first")
    replica_setup.replica().snapshot()
    replica_setup.publisher.publish(OTHER)
    replica_setup.replica().snapshot()
    replica_setup.clock.occurred_at += KEEP_S
    histories = {path for path in replica_setup.objects() if path.endswith("H")}

    replica_setup.replica().sweep()

    assert replica_setup.replica().snapshot(check=True).fetched == 0
    assert replica_setup.publisher.objects() - replica_setup.objects() <= histories


def test_a_dry_run_removes_nothing_and_counts_the_same(two):
    replica_setup, first, second = two
    replica_setup.clock.occurred_at += KEEP_S

    told = replica_setup.replica().sweep(dry_run=True)

    assert replica_setup.objects() == first | second
    assert replica_setup.replica().sweep() == told


def test_what_an_interrupted_pull_left_goes_too(two):
    replica_setup, _, _ = two
    replica_setup.publisher.publish({**TREE, "more": Nested({"x": b"only here\n"})})
    root = replica_setup.publisher.catalog
    replica_setup.stratum0.faults[f"data/{root[:2]}/{root[2:]}C"] = refusing(503)
    before = replica_setup.objects()
    with pytest.raises(RepositoryUnavailable):
        replica_setup.replica().snapshot()
    (replica_setup.here / "data/txn" / (root + "C")).write_bytes(b"staged")

    replica_setup.replica().sweep()

    assert replica_setup.objects() == before
    assert list((replica_setup.here / "data/txn").iterdir()) == []


def test_what_is_no_object_is_left_alone(two):
    replica_setup, _, _ = two
    (replica_setup.here / "data/00").mkdir(exist_ok=True)
    (replica_setup.here / "data/00/notes.txt").write_text("of the operator")
    (replica_setup.here / "data/lost+found").mkdir()

    replica_setup.replica().sweep()

    assert (replica_setup.here / "data/00/notes.txt").is_file()


def test_nothing_is_removed_when_a_catalog_cannot_be_read(two):
    replica_setup, first, second = two
    replica_setup.clock.occurred_at += KEEP_S
    catalog = next(path for path in second if path.endswith("C"))
    (replica_setup.here / catalog).write_bytes(b"rotten")

    with pytest.raises(RepositoryUntrusted):
        replica_setup.replica().sweep()

    assert replica_setup.objects() == first | second


@pytest.mark.parametrize(
    "leave", [Path.unlink, lambda catalog: (catalog.unlink(), catalog.mkdir())]
)
def test_a_catalog_that_is_gone_or_cannot_be_opened_is_not_told_as_a_full_or_broken_disk(
    two, leave
):
    replica_setup, first, second = two
    replica_setup.clock.occurred_at += KEEP_S
    catalog = next(path for path in second if path.endswith("C"))
    leave(replica_setup.here / catalog)

    with pytest.raises(RepositoryIncomplete) as failure:
        replica_setup.replica().sweep()

    assert catalog.removeprefix("data/").replace("/", "") in str(failure.value)
    assert "snapshot --check" in failure.value.hint
    assert (replica_setup.objects() | {catalog}) == first | second


def test_after_a_sweep_that_died_the_next_pull_trusts_no_catalog(two, monkeypatch):
    """Half of the first revision is gone when it is published anew: its catalogs prove nothing."""
    replica_setup, first, _ = two
    replica_setup.clock.occurred_at += KEEP_S
    unlink, left = Path.unlink, [len(first) // 2]

    def dying(path, *, missing_ok=False):
        if path.parent.parent.name == "data" and path.parent.name != "txn":
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", dying)
    with suppress(KeyboardInterrupt):
        replica_setup.replica().sweep()
    monkeypatch.setattr(Path, "unlink", unlink)
    assert replica_setup.replica().state().doubted
    replica_setup.publisher.publish(TREE)

    replica_setup.replica().snapshot()

    assert replica_setup.replica().snapshot(check=True).fetched == 0
    assert not replica_setup.replica().state().doubted


def test_a_repository_that_does_not_let_go_of_old_revisions_is_not_swept(new_scene):
    replica_setup = new_scene(collectable=False)
    replica_setup.publisher.publish()
    replica_setup.replica().snapshot()

    with pytest.raises(InvalidInput, match="must stay"):
        replica_setup.replica().sweep()


def test_nothing_is_swept_before_the_first_pull(replica_setup):
    with pytest.raises(InvalidInput, match=r"nothing of .* is here"):
        replica_setup.replica().sweep()


def test_a_sweep_does_not_run_beside_a_pull(replica_setup):
    refused = []

    def tell(_):
        if not refused:
            with pytest.raises(ReplicaBusy) as failure:
                replica_setup.replica().sweep()
            refused.append(failure.value)

    replica_setup.replica(workers=1).snapshot(tell=tell)

    assert refused


def test_a_tick_pulls_and_sweeps_when_it_is_time(two):
    replica_setup, first, _ = two
    replica = replica_setup.replica()
    replica.tick()
    replica_setup.clock.occurred_at += KEEP_S

    replica.tick()

    assert replica_setup.objects() & first != first
    swept_at = replica.state().last_sweep
    replica_setup.clock.occurred_at += DAY_S - 1
    replica.tick()
    assert replica.state().last_sweep == swept_at


def test_revisions_that_are_no_longer_kept_are_forgotten_also_where_nothing_is_swept(new_scene):
    replica_setup = new_scene(collectable=False)
    replica_setup.publisher.publish()
    replica_setup.replica().snapshot()
    replica_setup.publisher.publish(OTHER)
    replica_setup.replica().snapshot()
    assert [one.number for one in replica_setup.replica().state().revisions] == [1, 2]
    replica_setup.clock.occurred_at += KEEP_S

    replica_setup.replica().snapshot()

    assert [one.number for one in replica_setup.replica().state().revisions] == [2]
    assert len(replica_setup.objects()) == len(replica_setup.publisher.objects())
