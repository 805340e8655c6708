# SPDX-License-Identifier: Apache-2.0
"""`gridstead cvmfs mount`: a real kernel reads a signed repository, through FUSE."""

from __future__ import annotations

import errno
import json
import mmap
import os
import pwd
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fakes.cvmfs import DAY_S, TREE, Mode, Symlink
from tests.fakes.stratum0 import altered

from gridstead.cli.main import main
from gridstead.config import CvmfsClientSettings, load
from gridstead.errors import ConfigError
from gridstead.wiring import cvmfs_mount

PATIENCE_S = 20
COMMAND = "import sys; sys.argv[0] = 'gridstead'; from gridstead.cli.main import main; main()"
NEWER = {"README": b"what this is now, and longer\n", "new": b"only now\n", "data": TREE["data"]}

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/fuse").exists(),
    reason="only root mounts, and only where FUSE is",
)


def until(condition):
    """Wait for something to hold."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def names(folder):
    """Return what is in a folder."""
    return {path.name for path in folder.iterdir()}


@dataclass
class Mounts:
    """Runs the command on a scene's repository."""

    replica_setup: object
    folder: Path
    running: list[subprocess.Popen] = field(default_factory=list)

    @property
    def place(self) -> Path:
        """The mountpoint."""
        return self.folder / "mnt"

    @property
    def log(self) -> Path:
        """What all of them wrote."""
        return self.folder / "log"

    def configure(self) -> Path:
        """Write the settings and return the file."""
        config = self.folder / "cvmfs-client.toml"
        config.write_text(
            f'user = "{pwd.getpwuid(os.geteuid()).pw_name}"\ncache_directory = "{self.folder}/cache"\n'
            f'look_every_s = 1\ntimeout_s = 2\n[[repositories]]\nname = "{self.replica_setup.publisher.name}"\n'
            f'urls = ["{self.replica_setup.stratum0.url}"]\npublic_key_files = ["{self.replica_setup.key}"]\n'
        )
        return config

    def start(self) -> subprocess.Popen:
        """Start one."""
        self.place.mkdir(exist_ok=True)
        self.folder.chmod(0o755)
        words = [
            "cvmfs",
            "mount",
            self.replica_setup.publisher.name,
            str(self.place),
            "--config",
            str(self.configure()),
        ]
        with self.log.open("a") as log:
            one = subprocess.Popen([sys.executable, "-c", COMMAND, *words], stdout=log, stderr=log)
        self.running.append(one)
        return one

    def mount(self) -> subprocess.Popen:
        """Start one and wait until it serves."""
        one = self.start()
        until(lambda: os.path.ismount(self.place) or one.poll() is not None)
        assert one.poll() is None, self.log.read_text()
        return one

    def lines(self, event) -> list[dict]:
        """Return the lines of the log with an event."""
        lines = [
            json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")
        ]
        return [line for line in lines if line["event"] == event]

    def close(self) -> None:
        """End all."""
        for one in self.running:
            one.terminate()
            one.wait(PATIENCE_S)


@pytest.fixture
def mounts(replica_setup, folder):
    replica_setup.publisher.write_whitelist(issued=int(time.time()) - DAY_S)
    made = Mounts(replica_setup, folder)
    yield made
    made.close()


def test_a_mounted_repository_is_read_checked_followed_and_left(replica_setup, mounts):
    """One mount's life, for a mount takes a second."""
    replica_setup.publisher.publish(
        {**TREE, "secret": Mode(b"for one\n", 0o400, uid=7, gid=8), "way": Symlink("bin/tool")}
    )
    replica_setup.publisher.write_whitelist(issued=int(time.time()) - DAY_S)
    one, place = mounts.mount(), mounts.place

    assert (
        subprocess.check_output(["findmnt", "-no", "FSTYPE", place], text=True).strip()
        == "fuse.gridstead-cvmfs"
    )
    listed = {"README", "bin", "data", "empty", "secret", "v1", "way"}
    assert names(place) == listed
    assert (place / "way").read_bytes() == TREE["bin"]["tool"]
    assert (place / "data/large").read_bytes() == TREE["data"]["large"].content
    assert (place / "v1/deep/est/x").read_bytes() == b"deepest\n"
    assert (place / "empty").read_bytes() == b""
    status = (place / "secret").stat()
    assert (oct(status.st_mode), status.st_uid, status.st_gid, status.st_nlink) == (
        "0o100400",
        7,
        8,
        1,
    )
    assert (place / "data/one").stat().st_ino == (place / "data/two").stat().st_ino
    assert (place / "v1").stat().st_nlink == 4
    with pytest.raises(OSError, match="Read-only file system"):
        (place / "README").write_bytes(b"mine")
    words = [
        "setpriv",
        "--reuid=99",
        "--regid=99",
        "--clear-groups",
        "cat",
        place / "README",
        place / "secret",
    ]
    stranger = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (stranger.stdout.encode(), stranger.returncode) == (TREE["README"], 1)

    with (
        (place / "README").open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
    ):
        replica_setup.publisher.publish({**NEWER, "bad": b"altered on its way\n"})
        replica_setup.publisher.write_whitelist(issued=int(time.time()) - DAY_S)
        until(lambda: names(place) == {"README", "new", "data", "bad"})
        assert (file.read(), mapped[:]) == (TREE["README"], TREE["README"])
        assert (place / "README").read_bytes() == TREE["README"]
    until(lambda: (place / "README").read_bytes() == NEWER["README"])
    assert (place / "new").read_bytes() == b"only now\n"

    replica_setup.stratum0.every = altered
    with pytest.raises(OSError) as failure:  # noqa: PT011 - its number says which
        (place / "bad").read_bytes()
    assert failure.value.errno == errno.EIO
    (line,) = mounts.lines("access_failed")
    assert (line["path"], line["code"], line["repository"]) == (
        "/bad",
        "repository-untrusted",
        replica_setup.publisher.name,
    )
    replica_setup.stratum0.every = None
    assert (place / "bad").read_bytes() == b"altered on its way\n"

    one.terminate()
    assert one.wait(PATIENCE_S) == 0
    assert names(place) == set()


def test_without_a_server_it_serves_what_it_has_and_starts_with_that(replica_setup, mounts):
    one, place = mounts.mount(), mounts.place
    assert (place / "README").read_bytes() == TREE["README"]
    replica_setup.stratum0.close()
    one.terminate()
    one.wait(PATIENCE_S)

    mounts.mount()

    assert (place / "README").read_bytes() == TREE["README"]
    with pytest.raises(OSError) as failure:  # noqa: PT011 - its number says which
        (place / "bin/tool").read_bytes()
    assert failure.value.errno == errno.EIO
    assert mounts.lines("access_failed")[0]["code"] == "repository-unavailable"


def test_a_restart_breaks_nobody_who_has_a_file_open(mounts):
    one, place = mounts.mount(), mounts.place
    with (place / "data/large").open("rb") as file:
        one.terminate()
        assert one.wait(PATIENCE_S) == 0
        other = mounts.mount()

        assert file.read() == TREE["data"]["large"].content
    assert (place / "data/large").read_bytes() == TREE["data"]["large"].content
    (server,) = Path(f"/proc/{other.pid}/task/{other.pid}/children").read_text().split()
    os.kill(int(server), signal.SIGKILL)
    assert other.wait(PATIENCE_S) == 1
    assert names(place) == set()


def test_a_place_that_cannot_be_mounted_on_is_told_and_left_alone(mounts):
    settings = load(CvmfsClientSettings, mounts.configure())
    (mounts.folder / "file").touch()

    for place, told in (
        (mounts.folder / "file", "not a directory"),
        (Path("/dev/shm"), "type tmpfs"),
    ):
        with pytest.raises(ConfigError, match=told):
            cvmfs_mount.mount(settings, settings.repositories[0], place)


def test_a_repository_that_is_not_in_the_settings_is_told_with_those_that_are(
    mounts, monkeypatch, capsys
):
    words = [
        "gridstead",
        "cvmfs",
        "mount",
        "other.example.org",
        "/mnt",
        "--config",
        str(mounts.configure()),
    ]
    monkeypatch.setattr(sys, "argv", words)

    with pytest.raises(SystemExit) as end:
        main()

    assert end.value.code == 65
    assert mounts.replica_setup.publisher.name in capsys.readouterr().err


def test_a_repository_that_is_not_believed_is_not_mounted(mounts, replica_setup):
    replica_setup.publisher.write_whitelist(issued=int(time.time()) - 40 * DAY_S)

    assert mounts.start().wait(PATIENCE_S) == 69
    assert "has expired" in mounts.log.read_text()
    assert names(mounts.place) == set()
