# SPDX-License-Identifier: Apache-2.0
"""The tables of the store as SQLAlchemy objects. migrations.py creates the tables."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table, Text

METADATA = MetaData()

JOURNAL = Table(
    "journal",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("job_key", Text),
    Column("kind", Text),
    Column("at", BigInteger),
    Column("slurm_job_id", BigInteger),
    Column("reason", Text),
)

CURSOR = Table(
    "cursor",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("hash", Text),
    Column("timestamp", BigInteger),
)

OUTBOX = Table(
    "outbox",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", Text),
    Column("call", Text),
    Column("state", Text),
    Column("created_at", BigInteger),
    Column("reason", Text),
)

DECISIONS = Table(
    "decisions",
    METADATA,
    Column("number", BigInteger, primary_key=True),
    Column("text", Text),
    Column("signature", Text),
)

SNAPSHOTS = Table(
    "snapshots",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("format", Text),
    Column("rules", Text),
    Column("block", BigInteger),
    Column("content", LargeBinary),
)

TRANSACTIONS = Table(
    "transactions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("hash", Text),
    Column("account", Text),
    Column("nonce", BigInteger),
    Column("raw", Text),
    Column("entry_ids", Text),
    Column("max_fee", Text),
    Column("tip", Text),
    Column("sent_at", BigInteger),
    Column("withdrawn", Integer),
    Column("closed", Integer),
)
