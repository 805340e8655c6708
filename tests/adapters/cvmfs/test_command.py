# SPDX-License-Identifier: Apache-2.0
"""`gridstead cvmfs`, against a real Stratum 0 on loopback."""

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
from tests.fakes.cvmfs import DAY_S
from tests.fakes.stratum0 import refusing

from gridstead.cli import cvmfs as cli
from gridstead.cli.main import main
from gridstead.domain.cvmfs.replica import Pulled

PATIENCE_S = 20


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    out: str
    err: str


@pytest.fixture
def now(replica_setup):
    """The scene's letters, signed today: the command goes by the machine's clock."""
    at = int(time.time())
    replica_setup.publisher.write_whitelist(issued=at - DAY_S)
    return at


@pytest.fixture
def config(replica_setup, now, folder):
    """The settings file of the scene's replica."""
    file = folder / "cvmfs.toml"
    file.write_text(
        f'storage_directory = "{replica_setup.storage}"\nlisten = "127.0.0.1:1"\nmin_free_mib = 0\nsnapshot_every_s = 1\n'
        f'[[repositories]]\nname = "{replica_setup.publisher.name}"\nurl = "{replica_setup.stratum0.url}"\n'
        f'public_key_files = ["{replica_setup.key}"]\n[fetch]\ntimeout_s = 2\nworkers = 2\n'
    )
    return file


@pytest.fixture
def gridstead(monkeypatch, capsys):
    """Runs `gridstead cvmfs` with arguments."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gridstead", "cvmfs", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return Done(end.value.code or 0, *capsys.readouterr())

    return run


def test_a_replica_from_nothing_to_served_by_hand(gridstead, config, replica_setup):
    probed = gridstead(
        "probe",
        replica_setup.publisher.name,
        replica_setup.stratum0.url,
        "--public-key",
        replica_setup.key,
    )
    pulled = gridstead("snapshot", "--config", config, "--json")
    shown = gridstead("status", "--config", config, "--json")

    assert probed.code == pulled.code == shown.code == 0
    assert config.read_text().split("[fetch]")[0].endswith(probed.out)
    assert json.loads(pulled.out)[0]["revision"] == 1
    (status,) = json.loads(shown.out)
    assert (status["revision"], status["failure"]) == (1, None)
    assert status["age_s"] < PATIENCE_S
    assert replica_setup.same()


def test_people_are_told_in_a_sentence_and_a_table(gridstead, config, replica_setup):
    assert replica_setup.publisher.name in gridstead("status", "--config", config).out
    assert (
        "revision 1; "
        in gridstead("snapshot", replica_setup.publisher.name, "--config", config).out
    )
    assert "0 objects would be removed" in gridstead("gc", "--dry-run", "--config", config).out
    assert "0 objects removed" in gridstead("gc", "--config", config).out


def test_a_probe_stores_nothing_and_tells_what_it_saw(gridstead, replica_setup, now):
    done = gridstead(
        "probe",
        replica_setup.publisher.name,
        replica_setup.stratum0.url,
        "--public-key",
        replica_setup.key,
        "--json",
    )

    told = json.loads(done.out)
    assert (told["revision"], told["collectable"]) == (1, True)
    assert list(replica_setup.storage.iterdir()) == []


def test_a_repository_that_is_not_in_the_settings_is_told_with_those_that_are(
    gridstead, config, replica_setup
):
    for command in ("snapshot", "gc", "status"):
        done = gridstead(command, "other.example.org", "--config", config)

        assert done.code == 65
        assert replica_setup.publisher.name in done.err


def test_the_failure_of_one_repository_does_not_keep_another_from_its_pull(
    gridstead, config, replica_setup
):
    config.write_text(
        f'{config.read_text().split("[[")[0]}[[repositories]]\nname = "other.example.org"\n'
        f'url = "{replica_setup.stratum0.url}"\npublic_key_files = ["{replica_setup.key}"]\n[[{config.read_text().split("[[")[1]}'
    )

    done = gridstead("snapshot", "--config", config, "--json")

    assert done.code == 69
    assert [one["name"] for one in json.loads(done.out)] == [replica_setup.publisher.name]
    assert json.loads(done.err)["error"]["code"] == "repository-untrusted"
    shown = gridstead("status", "--config", config).out
    assert "repository-untrusted: whitelist is not of other.example.org" in shown


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('name = "software"', "repositories.0.name"),
        ('name = "../../etc.passwd"', "repositories.0.name"),
        ('name = "a..b"', "repositories.0.name"),
        ('nam = "a.b"', "did you mean name?"),
        ("public_key_files = []", "repositories.0.public_key_files"),
        ('url = "file:///srv"', "repositories.0.url"),
    ],
)
def test_a_wrong_setting_is_told_with_its_place(gridstead, config, setting, told):
    key = setting.split(" ")[0].replace("nam", "name").replace("namee", "name")
    lines = [setting if line.startswith(key) else line for line in config.read_text().splitlines()]
    config.write_text("\n".join(lines))

    done = gridstead("snapshot", "--config", config)

    assert done.code == 78
    assert told in done.err


def test_a_repository_that_stands_there_twice_is_told(gridstead, config):
    table = config.read_text().split("[[")[1].split("[fetch]")[0]
    config.write_text(f"{config.read_text()}\n[[{table}")

    assert "a repository stands there twice" in gridstead("snapshot", "--config", config).err


def test_a_long_pull_tells_now_and_then_how_far_it_is(capsys, monkeypatch):
    times = iter([0.0, 5.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr(cli.time, "monotonic", lambda: next(times))

    with cli.Progress("software.example.org") as progress:
        for count in range(3):
            progress.tell(Pulled(objects=count, fetched=1, fetched_bytes=3 * 2**20))

    assert capsys.readouterr().err.splitlines() == [
        "software.example.org: 0 catalogs, 1 objects looked at, 1 fetched, 3.0 MiB"
    ]


def test_the_service_pulls_serves_tells_and_ends_when_it_is_asked(
    config, replica_setup, monkeypatch
):
    """In this process, so that its coverage counts; a signal ends it, as systemd does."""
    from gridstead.config import CvmfsSettings, load  # noqa: PLC0415
    from gridstead.wiring import cvmfs as wiring  # noqa: PLC0415

    seen = {}
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}

    def client(port):
        deadline = time.monotonic() + PATIENCE_S
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", verify=False) as http:
            while http.get("/ready").status_code != 200 and time.monotonic() < deadline:
                time.sleep(0.05)
            while not replica_setup.same() and time.monotonic() < deadline:
                time.sleep(0.05)
            seen["manifest"] = http.get(
                f"/cvmfs/{replica_setup.publisher.name}/.cvmfspublished"
            ).content
            replica_setup.stratum0.every = refusing(500)
            while (
                "repository-unavailable" not in seen.get("metrics", "")
                and time.monotonic() < deadline
            ):
                seen["metrics"] = http.get("/metrics").text
                time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    start = wiring.WebServer.start

    def started(server):
        port = start(server)
        threading.Thread(target=client, args=(port,), daemon=True).start()
        return port

    settings = load(CvmfsSettings, config).model_copy(update={"listen": "127.0.0.1:0"})
    monkeypatch.setattr(wiring.WebServer, "start", started)
    try:
        wiring.run(settings)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)

    assert seen["manifest"] == (replica_setup.publisher.root / ".cvmfspublished").read_bytes()
    labels = f'{{repository="{replica_setup.publisher.name}"}}'
    assert f"gridstead_cvmfs_revision{labels} 1.0\n" in seen["metrics"]
    assert f"gridstead_cvmfs_last_snapshot_timestamp_seconds{labels} " in seen["metrics"]
    assert 'gridstead_calls_total{call="snapshot",outcome="ok"}' in seen["metrics"]
    assert seen["metrics"].endswith("# EOF\n")
