# SPDX-License-Identifier: Apache-2.0
"""Tests of port ``SnapshotStore``."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.fakes.ledger import FakeLedger
from tests.services.matching.restarting_grid import RestartingGrid, random_steps

from gridstead.adapters.store.database import Database
from gridstead.adapters.store.schema import SNAPSHOTS
from gridstead.adapters.store.snapshot_codec import ITEMS_PER_LINE, decode, encode
from gridstead.adapters.store.snapshots import SqlSnapshotStore
from gridstead.domain.jobs.ids import JobId
from gridstead.errors import UnexpectedOutput

CHECKOUT = Path(__file__).resolve().parents[3]
RULES = "chain 1"
# Replaces the snapshot in a store, and is killed in the middle of the transaction.
REPLACE_AND_DIE = """
import os, signal, sys
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.snapshot_codec import decode
from gridstead.adapters.store.snapshots import SqlSnapshotStore

def die(name):
    assert name == "snapshot-replaced"
    os.kill(os.getpid(), signal.SIGKILL)

store = SqlSnapshotStore(Database(sys.argv[1]), rules=sys.argv[2], failpoint=die)
store.save(decode(sys.stdin.buffer.read()))
"""


def snapshot_of(seed):
    """Return the snapshot of a meta-scheduler after random steps."""
    grid = RestartingGrid()
    for name, index in random_steps(seed):
        getattr(grid, name)(index)
    grid.tick()
    return grid.snapshots._take()


@pytest.fixture
def database(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/state.db")
    yield database
    database.close()


def test_empty_store_has_no_snapshot(store):
    assert store.snapshots.load() is None


def test_last_snapshot_remains_after_a_restart(store):
    first, second = snapshot_of(1), snapshot_of(2)
    assert first != second

    store.snapshots.save(first)
    store.snapshots.save(second)
    store.restart()

    assert store.snapshots.load() == second


@pytest.mark.parametrize("seed", range(5))
def test_decoded_snapshot_is_equal(seed):
    snapshot = snapshot_of(seed)

    assert decode(encode(snapshot)) == snapshot


def test_large_numbers_and_many_items_are_stored():
    snapshot = snapshot_of(1)
    job_id = FakeLedger().job_id
    blocks = {job_id(number): number for number in range(3 * ITEMS_PER_LINE)}
    accounts = {"0x01": (10**150, -(10**30), 0, 7, 0, -(10**150))}
    snapshot = replace(
        snapshot,
        grid=replace(snapshot.grid, requested_blocks=blocks),
        matcher=replace(snapshot.matcher, accounts=accounts),
    )

    restored = decode(encode(snapshot))

    assert restored == snapshot
    assert all(type(key) is JobId for key in restored.grid.requested_blocks)


def test_snapshot_with_other_rules_is_not_used(database):
    SqlSnapshotStore(database, rules=RULES).save(snapshot_of(1))

    with pytest.raises(UnexpectedOutput, match="state store") as error:
        SqlSnapshotStore(database, rules="chain 2").load()

    assert "other rules: chain 1" in error.value.text


def test_snapshot_of_another_format_is_not_used(database):
    store = SqlSnapshotStore(database, rules=RULES)
    store.save(snapshot_of(1))
    with database.begin() as connection:
        connection.execute(update(SNAPSHOTS).values(format="0-ab"))

    with pytest.raises(UnexpectedOutput) as error:
        store.load()

    assert "format 0-ab" in error.value.text


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:],
    ],
    ids=["truncated", "empty", "flipped bit"],
)
def test_damaged_snapshot_is_not_used(database, damage):
    store = SqlSnapshotStore(database, rules=RULES)
    snapshot = snapshot_of(1)
    store.save(snapshot)
    with database.begin() as connection:
        connection.execute(update(SNAPSHOTS).values(content=damage(encode(snapshot))))

    with pytest.raises(UnexpectedOutput):
        store.load()


def test_old_snapshot_remains_if_the_process_is_killed_during_the_write(tmp_path):
    url = f"sqlite:///{tmp_path}/state.db"
    first = snapshot_of(1)
    database = Database(url)
    SqlSnapshotStore(database, rules=RULES).save(first)
    database.close()

    command = [sys.executable, "-c", REPLACE_AND_DIE, url, RULES]
    environment = {"PYTHONPATH": str(CHECKOUT / "control")}
    content = encode(snapshot_of(2))
    process = subprocess.run(command, input=content, env=environment, check=False)

    assert process.returncode == -signal.SIGKILL
    database = Database(url)
    assert SqlSnapshotStore(database, rules=RULES).load() == first
    database.close()
