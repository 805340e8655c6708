# SPDX-License-Identifier: Apache-2.0
"""Pulls of harmful or invalid content that a publisher has signed with valid keys."""

from __future__ import annotations

import sqlite3
import zlib

import pytest
from cvmfs.tests.databases import SCHEMA
from cvmfs.tests.trees import TREE, Nested

from gridstead_cvmfs.adapters import databases
from gridstead_cvmfs.errors import RepositoryUntrusted

INVALID_HASHES = ["../../../etc/passwd", "0" * 41, ""]


@pytest.fixture(autouse=True)
def check_written_paths(folder):
    """Check, after each test, that the pull wrote nothing outside the replica."""
    yield
    # A path is setup-NUMBER/replicas/NAME/..., where NAME is the name of the repository.
    for path in folder.rglob("replicas/**/*"):
        assert path.relative_to(folder).parts[2] in {".state", "software.example.org"}


def publish_catalog(replica_setup, *statements, script=SCHEMA):
    """Publish a revision. These SQL statements create the database that is its root catalog."""
    database = sqlite3.connect(":memory:")
    database.executescript(script)
    for statement, values in statements:
        database.execute(statement, values)
    database.commit()
    raw = database.serialize()
    database.close()
    publish_raw(replica_setup, raw)


def publish_raw(replica_setup, raw):
    """Publish a revision whose root catalog consists of the bytes ``raw``."""
    replica_setup.publisher.revision += 1
    replica_setup.publisher.write_manifest(C=replica_setup.publisher.store(raw, "C"))


def check_refusal(replica_setup, message, **replica_options):
    """Check that a pull fails with this message and that the replica serves no revision."""
    with pytest.raises(RepositoryUntrusted, match=message):
        replica_setup.replica(**replica_options).snapshot()
    assert replica_setup.served_file() is None


@pytest.mark.parametrize(
    ("field", "value"), [("C", "../../../etc/passwd"), ("M", "../x"), ("S", "9" * 5000)]
)
def test_a_manifest_with_a_wrong_hash_or_number_is_refused(replica_setup, field, value):
    replica_setup.publisher.write_manifest(**{field: value})

    message = "not a number" if field == "S" else "not a content hash"
    check_refusal(replica_setup, message)


def test_a_signed_file_that_is_too_large_is_refused(replica_setup):
    replica_setup.publisher.write_manifest(Q="x" * 300_000)  # the limit is 256 KiB

    check_refusal(replica_setup, "too large")


@pytest.mark.parametrize("invalid_hash", INVALID_HASHES)
@pytest.mark.parametrize("table", ["nested_catalogs", "bind_mountpoints"])
def test_a_nested_catalog_without_a_valid_hash_is_refused(replica_setup, table, invalid_hash):
    publish_catalog(replica_setup, (f"INSERT INTO {table} VALUES ('/x', ?, 1)", (invalid_hash,)))

    check_refusal(replica_setup, "not a content hash")


@pytest.mark.parametrize(
    "digest", [b"", b"x" * 19, b"x" * 21, "0" * 20, 7, b"../../../../../../ab"]
)
def test_a_row_without_a_valid_hash_is_refused(replica_setup, digest):
    row = (
        "INSERT INTO catalog (md5path_1, md5path_2, hash, flags, name, symlink)"
        " VALUES (1, 1, ?, 4, '../x', '')"
    )
    publish_catalog(replica_setup, (row, (digest,)))
    if digest == b"../../../../../../ab":
        # These 20 bytes are a valid hash, so the publisher must have an object with this name.
        replica_setup.publisher.path(digest.hex()).parent.mkdir(exist_ok=True)
        replica_setup.publisher.path(digest.hex()).write_bytes(b"anything")

    check_refusal(replica_setup, "not a content hash|does not match its hash")


def test_an_unknown_hash_algorithm_is_refused(replica_setup):
    row = "INSERT INTO catalog (md5path_1, md5path_2, hash, flags) VALUES (1, 1, ?, ?)"
    # Flag 4 means that the row is a file. Bits 8 to 10 are the number of the hash algorithm.
    publish_catalog(replica_setup, (row, (b"x" * 20, 4 | 7 << 8)))

    check_refusal(replica_setup, "algorithm 7")


def test_an_external_file_is_not_fetched(replica_setup):
    row = "INSERT INTO catalog (md5path_1, md5path_2, hash, flags) VALUES (1, 1, ?, ?)"
    # Flag 4 means that the row is a file. Flag 128 means that the content of the file is on another
    # server.
    publish_catalog(replica_setup, (row, (b"x" * 20, 4 | 128)))

    replica_setup.replica().snapshot()

    assert replica_setup.served_file()


@pytest.mark.parametrize("raw", [b"", b"SQLite format 3\x00" + b"x" * 5000, b"no database at all"])
def test_a_catalog_that_is_not_a_database_is_refused(replica_setup, raw):
    publish_raw(replica_setup, raw)

    check_refusal(replica_setup, "cannot be read|not a database")


@pytest.mark.parametrize("table", ["catalog", "chunks", "nested_catalogs"])
def test_a_catalog_with_a_view_instead_of_a_table_is_refused(replica_setup, table):
    # The view has an endless number of rows.
    endless = f"""DROP TABLE {table}; CREATE VIEW {table} AS
                  WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                  SELECT i AS md5path_1, i AS md5path_2, i AS hash, i AS sha1, 4 AS flags FROM n"""
    publish_catalog(replica_setup, script=SCHEMA + endless)

    check_refusal(replica_setup, f"no table {table}")


def test_a_catalog_that_takes_too_long_to_read_is_refused(replica_setup, monkeypatch):
    monkeypatch.setattr(databases, "MAX_PROGRESS_CALLS", 3)
    monkeypatch.setattr(databases, "STEPS_PER_PROGRESS_CALL", 100)
    statement = "INSERT INTO catalog (md5path_1, md5path_2, flags) VALUES (?, 1, 1)"
    rows = [(statement, (number,)) for number in range(500)]
    publish_catalog(replica_setup, *rows)

    check_refusal(replica_setup, "cannot be read")


def test_a_catalog_whose_unpacked_size_is_too_large_is_refused(replica_setup):
    publish_raw(replica_setup, bytes(50 * 2**20))

    check_refusal(replica_setup, "unpacked", catalog_bytes=2**20)


def test_a_truncated_catalog_is_refused(replica_setup):
    compressed_catalog = zlib.compress(b"x" * 100_000)[:-9]
    digest = replica_setup.publisher.hash(compressed_catalog)
    path = replica_setup.publisher.path(digest, "C")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(compressed_catalog)
    replica_setup.publisher.write_manifest(C=digest)

    check_refusal(replica_setup, "truncated")


def test_catalogs_that_are_nested_too_deep_are_refused(replica_setup, monkeypatch):
    monkeypatch.setattr("gridstead_cvmfs.services.pull.MAX_DEPTH", 3)
    replica_setup.publisher.publish({"a": Nested({"b": Nested({"c": Nested({"d": b"d"})})})})

    check_refusal(replica_setup, "nested too deep")


@pytest.mark.parametrize("invalid_hash", INVALID_HASHES)
def test_a_tag_without_a_valid_hash_is_refused(replica_setup, invalid_hash):
    replica_setup.publisher.tags["evil"] = invalid_hash
    replica_setup.publisher.publish(TREE)

    check_refusal(replica_setup, "not a content hash")


def test_a_history_without_a_tags_table_is_refused(replica_setup):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE other (hash TEXT)")
    replica_setup.publisher.write_manifest(
        H=replica_setup.publisher.store(database.serialize(), "H")
    )
    database.close()

    check_refusal(replica_setup, "no table tags")
