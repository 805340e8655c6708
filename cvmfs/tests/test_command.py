# SPDX-License-Identifier: Apache-2.0
"""Tests of the command `gridstead cvmfs` with a Stratum 0 on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass

import httpx
import pytest
from cvmfs.tests.publisher import DAY_S
from cvmfs.tests.stratum0 import refuse_with

from gridstead.cli.main import main
from gridstead_cvmfs import cli
from gridstead_cvmfs.domain.replica import PullResult

DEADLINE_S = 20


@dataclass(frozen=True)
class Completed:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def now(replica_setup):
    """The current time. The published whitelist is valid at this time."""
    seconds = int(time.time())
    replica_setup.publisher.write_whitelist(issued=seconds - DAY_S)
    return seconds


@pytest.fixture
def config(replica_setup, now, folder):
    """The settings file of the replica."""
    file = folder / "cvmfs.toml"
    file.write_text(
        f'storage_directory = "{replica_setup.storage}"\nlisten = "127.0.0.1:1"\n'
        f"min_free_mib = 0\nsnapshot_every_s = 1\n"
        f'[[repositories]]\nname = "{replica_setup.publisher.name}"\n'
        f'url = "{replica_setup.stratum0.url}"\n'
        f'public_key_files = ["{replica_setup.key_file}"]\n[fetch]\ntimeout_s = 2\nworkers = 2\n'
    )
    return file


@pytest.fixture
def gridstead(monkeypatch, capsys):
    """A function that runs `gridstead cvmfs` with the given arguments."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gridstead", "cvmfs", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_info:
            main()
        return Completed(exit_info.value.code or 0, *capsys.readouterr())

    return run


def test_a_replica_is_set_up_with_probe_snapshot_and_status(gridstead, config, replica_setup):
    probe = gridstead(
        "probe",
        replica_setup.publisher.name,
        replica_setup.stratum0.url,
        "--public-key",
        replica_setup.key_file,
    )
    snapshot = gridstead("snapshot", "--config", config, "--json")
    status_output = gridstead("status", "--config", config, "--json")

    for result in (probe, snapshot, status_output):
        assert result.code == 0
    # A probe prints the settings of the repository.
    assert config.read_text().split("[fetch]")[0].endswith(probe.out)
    assert json.loads(snapshot.out)[0]["revision"] == 1
    (status,) = json.loads(status_output.out)
    assert (status["revision"], status["failure"]) == (1, None)
    assert status["age_s"] < DEADLINE_S
    assert replica_setup.is_identical()


def test_the_output_without_json_is_a_sentence_or_a_table(gridstead, config, replica_setup):
    name = replica_setup.publisher.name

    assert name in gridstead("status", "--config", config).out
    assert "revision 1; " in gridstead("snapshot", name, "--config", config).out
    assert "0 objects would be removed" in gridstead("gc", "--dry-run", "--config", config).out
    assert "0 objects removed" in gridstead("gc", "--config", config).out


def test_a_probe_prints_the_revision_and_stores_nothing(gridstead, replica_setup, now):
    result = gridstead(
        "probe",
        replica_setup.publisher.name,
        replica_setup.stratum0.url,
        "--public-key",
        replica_setup.key_file,
        "--json",
    )

    record = json.loads(result.out)
    assert (record["revision"], record["collectable"]) == (1, True)
    assert list(replica_setup.storage.iterdir()) == []


def test_the_error_for_an_unknown_repository_lists_the_known_ones(gridstead, config, replica_setup):
    for command in ("snapshot", "gc", "status"):
        completed = gridstead(command, "other.example.org", "--config", config)

        assert completed.code == 65
        assert replica_setup.publisher.name in completed.err


def test_the_failure_of_one_repository_does_not_stop_the_pull_of_another(
    gridstead, config, replica_setup
):
    # Add a repository before the existing one.
    options, repository = config.read_text().split("[[")
    config.write_text(
        f'{options}[[repositories]]\nname = "other.example.org"\n'
        f'url = "{replica_setup.stratum0.url}"\npublic_key_files = ["{replica_setup.key_file}"]\n'
        f"[[{repository}"
    )

    completed = gridstead("snapshot", "--config", config, "--json")

    assert completed.code == 69
    pulled_names = [record["name"] for record in json.loads(completed.out)]
    assert pulled_names == [replica_setup.publisher.name]
    assert json.loads(completed.err)["error"]["code"] == "repository-untrusted"
    shown = gridstead("status", "--config", config).out
    assert "repository-untrusted: whitelist is not for other.example.org" in shown


@pytest.mark.parametrize(
    ("key", "setting", "error"),
    [
        ("name", 'name = "software"', "repositories.0.name"),
        ("name", 'name = "../../etc.passwd"', "repositories.0.name"),
        ("name", 'name = "a..b"', "repositories.0.name"),
        ("name", 'nam = "a.b"', "did you mean name?"),
        ("public_key_files", "public_key_files = []", "repositories.0.public_key_files"),
        ("url", 'url = "file:///srv"', "repositories.0.url"),
    ],
)
def test_the_error_for_an_invalid_setting_names_the_setting(gridstead, config, key, setting, error):
    """The test replaces the line of ``key`` by ``setting``."""
    lines = [setting if line.startswith(key) else line for line in config.read_text().splitlines()]
    config.write_text("\n".join(lines))

    completed = gridstead("snapshot", "--config", config)

    assert completed.code == 78
    assert error in completed.err


def test_a_duplicate_repository_is_refused(gridstead, config):
    # The settings of the repository are between "[[" and "[fetch]".
    table = config.read_text().split("[[")[1].split("[fetch]")[0]
    config.write_text(f"{config.read_text()}\n[[{table}")

    completed = gridstead("snapshot", "--config", config)

    assert completed.code == 78
    assert "same name" in completed.err


def test_a_long_pull_prints_its_progress_every_ten_seconds(capsys, monkeypatch):
    # The second report comes 11 s after the start and is printed. The first and the third report
    # come less than 10 s after the start or after a printed report.
    times = iter([0.0, 5.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr(cli.time, "monotonic", lambda: next(times))

    with cli.SnapshotProgress("software.example.org") as progress:
        for count in range(3):
            progress.report(PullResult(objects=count, fetched=1, fetched_bytes=3 * 2**20))

    assert capsys.readouterr().err.splitlines() == [
        "software.example.org: 0 catalogs, 1 objects checked, 1 fetched, 3.0 MiB"
    ]


@pytest.fixture
def signal_handlers():
    """Restores the signal handlers after the test, because the service replaces them."""
    old_handlers = {
        signal_number: signal.getsignal(signal_number)
        for signal_number in (signal.SIGTERM, signal.SIGINT)
    }
    yield
    for signal_number, handler in old_handlers.items():
        signal.signal(signal_number, handler)


@pytest.mark.usefixtures("signal_handlers")
def test_the_service_pulls_and_serves_until_a_signal_stops_it(config, replica_setup, monkeypatch):
    """The service runs in this process, so that the coverage of its code is measured."""
    from gridstead.config import load  # noqa: PLC0415
    from gridstead_cvmfs.config import CvmfsSettings  # noqa: PLC0415
    from gridstead_cvmfs.wiring import replica as wiring  # noqa: PLC0415

    answers = {}

    def query_and_stop(port):
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", verify=False) as http:
            wait_until(lambda: http.get("/ready").status_code == 200)
            wait_until(replica_setup.is_identical)
            path = f"/cvmfs/{replica_setup.publisher.name}/.cvmfspublished"
            answers["manifest"] = http.get(path).content
            replica_setup.stratum0.fault_for_all = refuse_with(500)
            wait_until(lambda: "repository-unavailable" in http.get("/metrics").text)
            answers["metrics"] = http.get("/metrics").text
        os.kill(os.getpid(), signal.SIGTERM)

    start = wiring.WebServer.start

    def start_with_client(server):
        port = start(server)
        threading.Thread(target=query_and_stop, args=(port,), daemon=True).start()
        return port

    settings = load(CvmfsSettings, config).model_copy(update={"listen": "127.0.0.1:0"})
    monkeypatch.setattr(wiring.WebServer, "start", start_with_client)
    wiring.run(settings)

    assert answers["manifest"] == (replica_setup.publisher.root / ".cvmfspublished").read_bytes()
    labels = f'{{repository="{replica_setup.publisher.name}"}}'
    assert f"gridstead_cvmfs_revision{labels} 1.0\n" in answers["metrics"]
    assert f"gridstead_cvmfs_last_snapshot_timestamp_seconds{labels} " in answers["metrics"]
    assert 'gridstead_calls_total{call="snapshot",outcome="ok"}' in answers["metrics"]
    assert answers["metrics"].endswith("# EOF\n")


def wait_until(condition):
    """Wait until a condition holds, at most until the deadline.

    The function does not fail at the deadline, because the test checks the condition later.
    """
    deadline = time.monotonic() + DEADLINE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
