# SPDX-License-Identifier: Apache-2.0
"""Fixtures that start a PostgreSQL server for the tests that need one."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def _postgresql_bin() -> Path | None:
    """Return the folder of initdb and pg_ctl. Return None if PostgreSQL is not installed."""
    initdb_paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if initdb_paths:
        return initdb_paths[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def _server_account() -> dict[str, int]:
    """Return the account of the server, as arguments of ``subprocess.run``.

    PostgreSQL refuses to run as root. If the tests do not run as root, the result is empty, and the
    server runs as the user of the tests.
    """
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


def _run(argv, account: dict[str, int]) -> None:
    groups = [] if account else None  # an empty list removes the groups of root
    subprocess.run(
        argv, check=True, cwd="/", stdout=subprocess.DEVNULL, extra_groups=groups, **account
    )


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Path]:
    """Start a PostgreSQL server and yield its socket directory."""
    binaries = _postgresql_bin()
    if binaries is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed")
        pytest.skip("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory(prefix="gs-pg-") as name:
        directory = Path(name)
        account = _server_account()
        if account:
            os.chown(directory, account["user"], account["group"])
        data = directory / "data"

        initdb = [binaries / "initdb", "-D", data, "-U", "gridstead"]
        _run([*initdb, "-A", "trust", "--no-sync", "-E", "UTF8"], account)
        options = f"-c listen_addresses= -c unix_socket_directories={directory} -c fsync=off"
        pg_ctl = [binaries / "pg_ctl", "-D", data, "-w"]
        _run([*pg_ctl, "-o", options, "-l", directory / "log", "start"], account)
        try:
            yield directory
        finally:
            _run([*pg_ctl, "-m", "immediate", "stop"], account)


@pytest.fixture
def postgresql_url(postgresql, request) -> str:
    """Create an empty database for the test and return its URL."""
    from sqlalchemy import create_engine, text  # noqa: PLC0415

    name = f"test_{abs(hash(request.node.nodeid)):x}"
    server = f"postgresql+psycopg://gridstead@/postgres?host={postgresql}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {name}"))
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"postgresql+psycopg://gridstead@/{name}?host={postgresql}"
